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
import { before, CHOICES, called, length, type Period, period, starts } from "./period";
import { added, grouped, highestP95, OTHERS, percentile, sum, summed } from "./totals";

type Split = "model" | "route" | "";
const SPLITS: [Split, string][] = [
  ["", "All together"],
  ["model", "By model"],
  ["route", "By route"],
];
const TOKENS = { both: "In and out", in: "In", out: "Out" } as const;
const PERCENTILES = ["p50", "p95", "p99"] as const;

/** The totals of a period, by hour or day, and perhaps by model or route. */
function ask(asked: Period, split: Split, signal: AbortSignal): Promise<Total[]> {
  const query = { by: asked.unit, split: split || undefined, since: iso(asked.from), until: iso(asked.until) };
  return get("/api/interactions/totals", { query, signal });
}
const iso = (moment: number) => new Date(moment).toISOString();

export function Overview() {
  const { query } = useRoute();
  const choice = query.get("period") ?? "7d";
  const split = (query.get("by") ?? "") as Split;
  const [from, until] = [query.get("from") ?? "", query.get("to") ?? ""];
  const [round, setRound] = useState(0);
  const asked = useMemo(() => period(choice, from, until, Date.now()), [choice, from, until, round]);
  const now = useLoad(
    (signal) => ask(asked, split, signal).then((totals) => ({ totals, split, asked })),
    [asked, split],
  );
  const then = useLoad((signal) => ask(before(asked), "", signal), [asked]);
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
        <button type="button" onClick={() => setRound(round + 1)}>
          Refresh
        </button>
        <p className={`quiet ${css.zone}`}>
          {asked.unit === "hour" ? "Hours" : "Days"} in UTC. Changes compare with the {length(asked)} before.
        </p>
      </div>
      {now.error ? <Failure error={now.error} retry={now.reload} /> : null}
      {now.data ? (
        <div aria-busy={now.loading} className={css.overview}>
          <Figures
            now={sum(now.data.totals)}
            then={then.data && sum(then.data)}
            p95={highestP95(now.data.totals)}
            unit={asked.unit}
          />
          {now.data.totals.length ? <Charts {...now.data} /> : <NoCalls />}
          <ByName by={split || "model"} since={iso(asked.from)} until={iso(asked.until)} />
        </div>
      ) : (
        now.loading && <Loading what="Loading the totals" />
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

function Charts({ totals, split, asked }: { totals: Total[]; split: Split; asked: Period }) {
  const [tokens, setTokens] = useState<keyof typeof TOKENS>("both");
  const [which, setWhich] = useState<(typeof PERCENTILES)[number]>("p95");
  const groups = useMemo(() => [...grouped(totals, asked)], [totals, asked]);
  const places = useMemo(() => starts(asked).map((start) => called(asked.unit, start)), [asked]);
  const all = groups[0]?.[1] ?? [];
  const everything = groups.map(([, there]) => there);
  const errors = {
    name: "Failed calls",
    values: places.map((_, nth) => sum(everything.flatMap((there) => there[nth] ?? [])).errors),
  };
  const taken = { both: [true, true], in: [true, false], out: [false, true] }[tokens];
  const by = split ? ` by ${split}` : "";
  return (
    <div className={css.charts}>
      <Chart
        title={`Calls${by}`}
        shape="bars"
        whole
        places={places}
        format={compact}
        series={
          split
            ? groups.map(([name, there]) => summed(name, there, (one) => one.calls))
            : [summed("Answered", all, (one) => one.calls - one.errors), summed("Failed", all, (one) => one.errors)]
        }
        marks={split ? errors : undefined}
      />
      <Chart
        title={`Tokens${by}`}
        shape="bars"
        missing="unknown"
        whole
        places={places}
        format={compact}
        series={
          split
            ? groups.map(([name, there]) =>
                summed(name, there, (one) => added(taken[0] ? one.tokens_in : null, taken[1] ? one.tokens_out : null)),
              )
            : [summed("In", all, (one) => one.tokens_in), summed("Out", all, (one) => one.tokens_out)]
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
        places={places}
        format={money}
        missing="unknown"
        series={groups.map(([name, there]) => summed(name || "Cost", there, (one) => one.cost))}
      />
      <Chart
        title={`Latency${by}`}
        shape="lines"
        places={places}
        format={duration}
        missing="no calls"
        series={
          split
            ? groups.filter(([name]) => name !== OTHERS).map(([name, there]) => percentile(name, there, which))
            : PERCENTILES.map((one) => percentile(one, all, one))
        }
      >
        {split && (
          <select
            aria-label="Which percentile"
            value={which}
            onChange={(event) => setWhich(event.target.value as typeof which)}
          >
            {PERCENTILES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
      </Chart>
      <p className={`quiet ${css.chartsNote}`}>
        p50, p95 and p99: the time within which 50 %, 95 % and 99 % of the calls were answered.{" "}
        {errors.values.some(Boolean) && `${count(errors.values.reduce((one, other) => one + other, 0))} calls failed.`}
      </p>
    </div>
  );
}
