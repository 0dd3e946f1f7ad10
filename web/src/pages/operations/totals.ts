// The server's totals by hour or day and by model or route, as chart series: every interval, largest series first.
import type { Total } from "../../api/index";
import type { Series } from "../../ui/chart";
import { type Period, startOf, starts } from "./period";

export type Sum = Pick<Total, "calls" | "errors" | "tokens_in" | "tokens_out" | "cost">;

/** The number of series that a chart can distinguish; the rest is shown as one series. */
export const MAX_SERIES = 5;
export const OTHERS = "All others";

/** The sum of all totals; tokens or cost stay unknown if no call has them. */
export function addUp(totals: readonly Sum[]): Sum {
  const result: Sum = { calls: 0, errors: 0, tokens_in: null, tokens_out: null, cost: null };
  for (const total of totals) {
    result.calls += total.calls;
    result.errors += total.errors;
    result.tokens_in = added(result.tokens_in, total.tokens_in);
    result.tokens_out = added(result.tokens_out, total.tokens_out);
    result.cost = added(result.cost, total.cost);
  }
  return result;
}

/** The sum of two numbers, each of which may be unknown. */
export function added(first: number | null, other: number | null): number | null {
  return first === null || other === null ? (first ?? other) : first + other;
}

/** The totals of each column by series: the series with the most calls, then all others as one. */
export function grouped(totals: readonly Total[], period: Period): Map<string, Total[][]> {
  const calls = new Map<string, number>();
  for (const total of totals) calls.set(total.split, (calls.get(total.split) ?? 0) + total.calls);
  const names = [...calls].sort(([a, fewer], [b, more]) => more - fewer || (a < b ? -1 : 1)).map(([name]) => name);
  const largest = names.length > MAX_SERIES + 1 ? names.slice(0, MAX_SERIES) : names;
  const shown = largest.length < names.length ? [...largest, OTHERS] : largest;
  const columnOf = new Map(starts(period).map((start, nth) => [start, nth]));
  const groups = new Map(shown.map((name) => [name, Array.from({ length: columnOf.size }, (): Total[] => [])]));
  for (const total of totals) {
    const nth = columnOf.get(startOf(total.name));
    if (nth !== undefined) groups.get(largest.includes(total.split) ? total.split : OTHERS)?.[nth]?.push(total);
  }
  return groups;
}

/** One value per column: 0 without calls, null if there were calls but the value is unknown. */
export function summed(name: string, columns: readonly Total[][], pick: (sums: Sum) => number | null): Series {
  return { name, values: columns.map((totals) => (totals.length ? pick(addUp(totals)) : 0)) };
}

/** A percentile per column; null without calls, and for several totals, because percentiles cannot be added. */
export function percentile(name: string, columns: readonly Total[][], which: "p50" | "p95" | "p99"): Series {
  return { name, values: columns.map(([total, ...more]) => (total && !more.length ? total[which] : null)) };
}

/** The highest p95 of all hours or days; null without calls of known latency. */
export function highestP95(totals: readonly Pick<Total, "p95">[]): number | null {
  const latencies = totals.map((total) => total.p95).filter((value) => value !== null);
  return latencies.length ? Math.max(...latencies) : null;
}

/** The relative change as text. */
export function change(now: number | null, then: number | null): string {
  if (now === null || then === null) return "";
  if (then === 0) return now === 0 ? "no change" : "none before";
  const percent = Math.round((now / then - 1) * 100);
  if (percent === 0) return "no change";
  return percent > 999 ? `×${Math.round(now / then)}` : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`;
}
