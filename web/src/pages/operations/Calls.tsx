// The calls of models one by one, the newest first.
import { useEffect, useEffectEvent, useState } from "react";
import { get } from "../../api/client";
import type { Interaction } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { go, to, useRoute } from "../../app/route";
import { duration, money } from "../../ui/chart";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { VirtualList } from "../../ui/VirtualList";
import { Call } from "./Call";
import css from "./operations.module.css";

const PAGE = 100;
/** So many pages are looked through for failures before somebody says that it should go on. */
const LOOK_THROUGH = 20;
const MONTHS = 90 * 86_400_000;

export function Calls() {
  const { query } = useRoute();
  const [model, route] = [query.get("model") ?? "", query.get("route") ?? ""];
  const failed = query.get("failed") === "1";
  const [open, setOpen] = useState<Interaction | null>(null);
  const [patience, setPatience] = useState(LOOK_THROUGH);
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
      {shown.length > 0 && (
        <VirtualList
          items={shown}
          keyOf={(call) => call.id}
          size={62}
          label="Calls"
          className={css.tall}
          nearEnd={failed ? undefined : calls.more}
          stale={calls.stale}
        >
          {(call) => <Line call={call} open={() => setOpen(call)} />}
        </VirtualList>
      )}
      {(calls.loading || (looking && further)) && <Loading what="Loading calls" />}
      {looking && !further && (
        <p className="quiet">
          The newest {count(calls.items.length)} calls were looked through.{" "}
          <button type="button" onClick={() => setPatience(patience + LOOK_THROUGH)}>
            Look further back
          </button>
        </p>
      )}
      {!shown.length && !calls.loading && !looking && !calls.error && (
        <Empty title={failed ? "No call failed" : "No calls yet"}>
          <p>
            {model || route || failed ? "Try with fewer filters." : "Each call of a model shows here. Start a chat."}
          </p>
        </Empty>
      )}
      {open && <Call call={open} close={() => setOpen(null)} />}
    </>
  );
}

function Line({ call, open }: { call: Interaction; open: () => void }) {
  return (
    <button type="button" className={css.lineButton} onClick={open}>
      <span className={css.lineMain}>
        <b>{call.model}</b> <span className="quiet">{call.route}</span>
        {call.error && <span className="chip bad">Failed</span>}
        <span className={css.lineWhen}>
          <Time at={call.created_at} />
        </span>
      </span>
      <span className={`quiet ${css.lineMore}`}>
        {count(call.tokens_in)} in · {count(call.tokens_out)} out · {duration(call.latency_ms)} ·{" "}
        {call.cost === null ? "cost unknown" : money(call.cost)}
        {call.agent && ` · ${call.agent}`}
        {call.user && ` · ${call.user}`}
        {call.error && ` · ${call.error}`}
      </span>
    </button>
  );
}

/** The models or routes of the last months to choose from. */
function Names(props: { label: string; by: "model" | "route"; value: string; choose: (name: string) => void }) {
  const { label, by, value, choose } = props;
  const found = useLoad(
    (signal) => {
      const since = new Date(Date.now() - MONTHS).toISOString();
      return get("/api/interactions/totals", { query: { by, since }, signal });
    },
    [by],
  );
  const names = new Set((found.data ?? []).map((total) => total.name));
  if (value) names.add(value);
  return (
    <select aria-label={label} value={value} onChange={(event) => choose(event.target.value)}>
      <option value="">Every {label.toLowerCase()}</option>
      {[...names].map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
