// The model calls, newest first.
import { useEffect, useEffectEvent, useState } from "react";
import { get } from "../../api/client";
import type { Interaction } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { go, to, useRoute } from "../../app/route";
import { duration, formatKnown, money } from "../../ui/chart";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { Call } from "./Call";
import css from "./operations.module.css";

const PAGE = 100;
/** The number of pages to search for failures before the user has to continue. */
const MAX_SEARCH_PAGES = 20;
const MONTHS = 90 * 86_400_000;

export function Calls() {
  const { query } = useRoute();
  const [model, route] = [query.get("model") ?? "", query.get("route") ?? ""];
  const failed = query.get("failed") === "1";
  const [open, setOpen] = useState<Interaction | null>(null);
  const [patience, setPatience] = useState(MAX_SEARCH_PAGES);
  const calls = usePages<Interaction>(
    (after, signal) => get("/api/interactions", { query: { model, route, limit: PAGE, after }, signal }),
    [model, route],
  );
  const shown = failed ? calls.items.filter((call) => call.error) : calls.items;
  const looking = failed && shown.length < 30 && calls.hasMore && !calls.error;
  const further = calls.items.length < patience * PAGE;
  const more = useEffectEvent(calls.more);
  useEffect(() => {
    if (looking && further && !calls.loading) more();
  }, [looking, further, calls.loading]);
  const choose = (changes: Record<string, string>) =>
    go(to(["operations", "calls"], { model, route, failed: failed ? "1" : "", ...changes }), true);
  return (
    <>
      <div className="toolbar">
        <Names label="Model" by="model" value={model} choose={(name) => choose({ model: name })} />
        <Names label="Route" by="route" value={route} choose={(name) => choose({ route: name })} />
        <label className="check">
          <input
            type="checkbox"
            checked={failed}
            onChange={(event) => choose({ failed: event.target.checked ? "1" : "" })}
          />
          Failed only
        </label>
        <button type="button" onClick={calls.reload}>
          Refresh
        </button>
      </div>
      {calls.error ? <Failure error={calls.error} retry={calls.reload} /> : null}
      {shown.length > 0 && <Table calls={shown} stale={calls.stale} open={setOpen} />}
      {!failed && calls.hasMore && !calls.loading && (
        <p className="toolbar">
          <button type="button" onClick={calls.more}>
            Older calls
          </button>
          <span className="quiet">Sorting covers the {count(shown.length)} calls that are loaded.</span>
        </p>
      )}
      {(calls.loading || (looking && further)) && <Loading label="Loading calls" />}
      {looking && !further && (
        <p className="quiet">
          Searched the newest {count(calls.items.length)} calls.{" "}
          <button type="button" onClick={() => setPatience(patience + MAX_SEARCH_PAGES)}>
            Search older calls
          </button>
        </p>
      )}
      {!shown.length && !calls.loading && !looking && !calls.error && (
        <Empty title={failed ? "No call failed" : "No calls yet"}>
          <p>{model || route || failed ? "Remove a filter." : "Every model call is listed here. Start a chat."}</p>
        </Empty>
      )}
      {open && <Call call={open} close={() => setOpen(null)} />}
    </>
  );
}

type Column = { label: string; number?: boolean; value: (call: Interaction) => number | string };
const COLUMNS: Column[] = [
  { label: "When", value: (call) => call.created_at },
  { label: "User", value: (call) => call.user ?? "" },
  { label: "Agent", value: (call) => call.agent ?? "" },
  { label: "Model", value: (call) => call.model },
  { label: "Route", value: (call) => call.route },
  { label: "Tokens in", number: true, value: (call) => call.tokens_in ?? -1 },
  { label: "Tokens out", number: true, value: (call) => call.tokens_out ?? -1 },
  { label: "Took", number: true, value: (call) => call.latency_ms ?? -1 },
  { label: "Cost", number: true, value: (call) => call.cost ?? -1 },
];

/** The calls as a table, sorted by the column clicked last. */
function Table({ calls, stale, open }: { calls: Interaction[]; stale: boolean; open: (call: Interaction) => void }) {
  const [sort, setSort] = useState<{ column: string; up: boolean }>({ column: "When", up: false });
  const value =
    COLUMNS.find((column) => column.label === sort.column)?.value ?? ((call: Interaction) => call.created_at);
  const sorted = calls.toSorted((first, other) => {
    const [left, right] = [value(first), value(other)];
    const order = left < right ? -1 : left > right ? 1 : 0;
    return sort.up ? order : -order;
  });
  const turn = (column: string) => setSort({ column, up: sort.column === column && !sort.up });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className={`table ${css.calls}`} tabIndex={0} inert={stale} aria-busy={stale}>
      <table aria-label="Calls">
        <thead>
          <tr>
            {COLUMNS.map(({ label, number }) => (
              <th
                key={label}
                scope="col"
                className={number ? "number" : undefined}
                aria-sort={sort.column !== label ? undefined : sort.up ? "ascending" : "descending"}
              >
                <button type="button" className="link" onClick={() => turn(label)}>
                  {label}
                </button>
                {sort.column === label && <span aria-hidden="true">{sort.up ? " ↑" : " ↓"}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((call) => (
            <tr key={call.id}>
              <td>
                <Time at={call.created_at} />
              </td>
              <td>{call.user}</td>
              <td>{call.agent}</td>
              <th scope="row">
                <button type="button" className="link" onClick={() => open(call)}>
                  {call.model}
                </button>
                {call.error && <span className="chip bad">Failed</span>}
              </th>
              <td>{call.route}</td>
              <td className="number">{formatKnown(call.tokens_in, count)}</td>
              <td className="number">{formatKnown(call.tokens_out, count)}</td>
              <td className="number">{formatKnown(call.latency_ms, duration)}</td>
              <td className="number">{call.cost === null ? "unknown" : money(call.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The models or routes of the last months to choose from. */
function Names(props: { label: string; by: "model" | "route"; value: string; choose: (name: string) => void }) {
  const { label, by, value, choose } = props;
  const totals = useLoad(
    (signal) => {
      const since = new Date(Date.now() - MONTHS).toISOString();
      return get("/api/interactions/totals", { query: { by, since }, signal });
    },
    [by],
  );
  const names = new Set((totals.data ?? []).map((total) => total.name));
  if (value) names.add(value);
  return (
    <select aria-label={label} value={value} onChange={(event) => choose(event.target.value)}>
      <option value="">All {label.toLowerCase()}s</option>
      {[...names].map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
