// Usage charts: number, tokens, cost and latency of model calls over time, by model or route.

import { useMemo, useState } from "react";
import { get } from "../../api/client";
import type { Total } from "../../api/index";
import { useLoad } from "../../api/load";
import { go, to, useRoute } from "../../app/route";
import { Chart } from "../../ui/Chart";
import { compact, duration, money } from "../../ui/chart";
import { Empty, Failure, Loading } from "../../ui/states";
import { count } from "../../ui/time";
import { ByName } from "./ByName";
import { Figures } from "./Figures";
import css from "./operations.module.css";
import { CHOICES, called, length, type Period, period, previousPeriod, starts } from "./period";
import { added, addUp, grouped, highestP95, OTHERS, percentile, summed } from "./totals";

type Split = "model" | "route" | "";
const SPLITS: [Split, string][] = [
  ["", "All together"],
  ["model", "By model"],
  ["route", "By route"],
];
const TOKENS = { both: "In and out", in: "In", out: "Out" } as const;
const PERCENTILES = ["p50", "p95", "p99"] as const;

/** Request the totals of a period by hour or day, optionally by model or route. */
function ask(shownPeriod: Period, split: Split, signal: AbortSignal): Promise<Total[]> {
  const query = {
    by: shownPeriod.unit,
    split: split || undefined,
    since: iso(shownPeriod.from),
    until: iso(shownPeriod.until),
  };
  return get("/api/interactions/totals", { query, signal });
}
const iso = (moment: number) => new Date(moment).toISOString();

export function Overview() {
  const { query } = useRoute();
  const choice = query.get("period") ?? "7d";
  const split = (query.get("by") ?? "") as Split;
  const [from, until] = [query.get("from") ?? "", query.get("to") ?? ""];
  const [reloads, setReloads] = useState(0);
  const shownPeriod = useMemo(() => period(choice, from, until, Date.now()), [choice, from, until, reloads]);
  const now = useLoad(
    (signal) => ask(shownPeriod, split, signal).then((totals) => ({ totals, split, shownPeriod })),
    [shownPeriod, split],
  );
  const then = useLoad((signal) => ask(previousPeriod(shownPeriod), "", signal), [shownPeriod]);
  const choose = (changes: Record<string, string>) =>
    go(to(["operations"], { period: choice, by: split, from, to: until, ...changes }), true);
  return (
    <>
      <div className="toolbar">
        <select aria-label="Period" value={choice} onChange={(event) => choose({ period: event.target.value })}>
          {CHOICES.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
        {choice === "own" && (
          <>
            <input
              type="date"
              aria-label="First day"
              value={from}
              onChange={(event) => choose({ from: event.target.value })}
            />
            <input
              type="date"
              aria-label="Last day"
              value={until}
              onChange={(event) => choose({ to: event.target.value })}
            />
          </>
        )}
        <select aria-label="Split" value={split} onChange={(event) => choose({ by: event.target.value })}>
          {SPLITS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
        <button type="button" onClick={() => setReloads(reloads + 1)}>
          Refresh
        </button>
        <p className={`quiet ${css.zone}`}>
          {shownPeriod.unit === "hour" ? "Hours" : "Days"} in UTC. Changes compare with the {length(shownPeriod)}{" "}
          before.
        </p>
      </div>
      {now.error ? <Failure error={now.error} retry={now.reload} /> : null}
      {now.data ? (
        <div aria-busy={now.loading} className={css.overview}>
          <Figures
            now={addUp(now.data.totals)}
            then={then.data && addUp(then.data)}
            p95={highestP95(now.data.totals)}
            unit={shownPeriod.unit}
          />
          {now.data.totals.length ? <Charts {...now.data} /> : <NoCalls />}
          <ByName by={split || "model"} since={iso(shownPeriod.from)} until={iso(shownPeriod.until)} />
        </div>
      ) : (
        now.loading && <Loading label="Loading the totals" />
      )}
    </>
  );
}

function NoCalls() {
  return (
    <Empty title="No calls in this time">
      <p>
        Model calls of the chat are listed here automatically, and others through <code>save_turn</code> or{" "}
        <code>interactions.add</code>. Choose a longer period, or start a chat.
      </p>
    </Empty>
  );
}

function Charts({ totals, split, shownPeriod }: { totals: Total[]; split: Split; shownPeriod: Period }) {
  const [tokens, setTokens] = useState<keyof typeof TOKENS>("both");
  const [which, setWhich] = useState<(typeof PERCENTILES)[number]>("p95");
  const groups = useMemo(() => [...grouped(totals, shownPeriod)], [totals, shownPeriod]);
  const columns = useMemo(() => starts(shownPeriod).map((start) => called(shownPeriod.unit, start)), [shownPeriod]);
  const allTotals = groups[0]?.[1] ?? [];
  const allGroups = groups.map(([, groupTotals]) => groupTotals);
  const errors = {
    name: "Failed calls",
    values: columns.map((_, nth) => addUp(allGroups.flatMap((groupTotals) => groupTotals[nth] ?? [])).errors),
  };
  const included = { both: [true, true], in: [true, false], out: [false, true] }[tokens];
  const by = split ? ` by ${split}` : "";
  return (
    <div className={css.charts}>
      <Chart
        title={`Calls${by}`}
        shape="bars"
        integers
        columns={columns}
        format={compact}
        series={
          split
            ? groups.map(([name, groupTotals]) => summed(name, groupTotals, (total) => total.calls))
            : [
                summed("Answered", allTotals, (total) => total.calls - total.errors),
                summed("Failed", allTotals, (total) => total.errors),
              ]
        }
        marks={split ? errors : undefined}
      />
      <Chart
        title={`Tokens${by}`}
        shape="bars"
        missing="unknown"
        integers
        columns={columns}
        format={compact}
        series={
          split
            ? groups.map(([name, groupTotals]) =>
                summed(name, groupTotals, (total) =>
                  added(included[0] ? total.tokens_in : null, included[1] ? total.tokens_out : null),
                ),
              )
            : [
                summed("In", allTotals, (total) => total.tokens_in),
                summed("Out", allTotals, (total) => total.tokens_out),
              ]
        }
      >
        {split && (
          <select
            aria-label="Which tokens"
            value={tokens}
            onChange={(event) => setTokens(event.target.value as keyof typeof TOKENS)}
          >
            {Object.entries(TOKENS).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        )}
      </Chart>
      <Chart
        title={`Cost${by}`}
        shape="bars"
        columns={columns}
        format={money}
        missing="unknown"
        series={groups.map(([name, groupTotals]) => summed(name || "Cost", groupTotals, (total) => total.cost))}
      />
      <Chart
        title={`Latency${by}`}
        shape="lines"
        columns={columns}
        format={duration}
        missing="no calls"
        series={
          split
            ? groups
                .filter(([name]) => name !== OTHERS)
                .map(([name, groupTotals]) => percentile(name, groupTotals, which))
            : PERCENTILES.map((name) => percentile(name, allTotals, name))
        }
      >
        {split && (
          <select
            aria-label="Which percentile"
            value={which}
            onChange={(event) => setWhich(event.target.value as typeof which)}
          >
            {PERCENTILES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Chart>
      <p className={`quiet ${css.chartsNote}`}>
        p50, p95 and p99: the time within which 50 %, 95 % and 99 % of the calls were answered.{" "}
        {errors.values.some(Boolean) &&
          `${count(errors.values.reduce((total, other) => total + other, 0))} calls failed.`}
      </p>
    </div>
  );
}
