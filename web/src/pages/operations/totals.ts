// The server's totals by hour or day and by model or route, as chart series: every interval, largest series first.
import type { Total } from "../../api/index";
import type { Series } from "../../ui/chart";
import { type Period, startOf, starts } from "./period";

export type Sum = Pick<Total, "calls" | "errors" | "tokens_in" | "tokens_out" | "cost">;

/** So many series a chart can tell apart; what is beyond is the others together. */
export const MOST_SERIES = 5;
export const OTHERS = "All others";

/** The sum of all totals; tokens or cost stay unknown if no call has them. */
export function sum(totals: readonly Sum[]): Sum {
  const all: Sum = { calls: 0, errors: 0, tokens_in: null, tokens_out: null, cost: null };
  for (const one of totals) {
    all.calls += one.calls;
    all.errors += one.errors;
    all.tokens_in = added(all.tokens_in, one.tokens_in);
    all.tokens_out = added(all.tokens_out, one.tokens_out);
    all.cost = added(all.cost, one.cost);
  }
  return all;
}

/** The sum of two numbers, each of which may be unknown. */
export function added(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : one + other;
}

/** The totals at each place of the period, by the name of their series: those with the most calls, then all others. */
export function grouped(totals: readonly Total[], period: Period): Map<string, Total[][]> {
  const calls = new Map<string, number>();
  for (const one of totals) calls.set(one.split, (calls.get(one.split) ?? 0) + one.calls);
  const names = [...calls].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1)).map(([name]) => name);
  const kept = names.length > MOST_SERIES + 1 ? names.slice(0, MOST_SERIES) : names;
  const all = kept.length < names.length ? [...kept, OTHERS] : kept;
  const place = new Map(starts(period).map((start, nth) => [start, nth]));
  const found = new Map(all.map((name) => [name, Array.from({ length: place.size }, (): Total[] => [])]));
  for (const one of totals) {
    const nth = place.get(startOf(one.name));
    if (nth !== undefined) found.get(kept.includes(one.split) ? one.split : OTHERS)?.[nth]?.push(one);
  }
  return found;
}

/** One value at each place: 0 where nothing was called, null where something was and the value is unknown. */
export function summed(name: string, places: readonly Total[][], what: (all: Sum) => number | null): Series {
  return { name, values: places.map((here) => (here.length ? what(sum(here)) : 0)) };
}

/** A percentile at each place; null where nothing was called. It cannot be had of several together. */
export function percentile(name: string, places: readonly Total[][], which: "p50" | "p95" | "p99"): Series {
  return { name, values: places.map(([one, ...more]) => (one && !more.length ? one[which] : null)) };
}

/** The highest p95 of all hours or days; null without calls of known latency. */
export function highestP95(totals: readonly Pick<Total, "p95">[]): number | null {
  const known = totals.map((one) => one.p95).filter((one) => one !== null);
  return known.length ? Math.max(...known) : null;
}

/** By how much something changed, in words. */
export function change(now: number | null, then: number | null): string {
  if (now === null || then === null) return "";
  if (then === 0) return now === 0 ? "no change" : "none before";
  const percent = Math.round((now / then - 1) * 100);
  if (percent === 0) return "no change";
  return percent > 999 ? `×${Math.round(now / then)}` : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`;
}
