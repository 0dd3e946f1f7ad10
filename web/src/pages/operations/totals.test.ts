import { expect, test } from "vitest";
import type { Total } from "../../api/index";
import { formatKnown } from "../../ui/chart";
import type { Period } from "./period";
import { addUp, change, grouped, highestP95, OTHERS, percentile, summed } from "./totals";

const three: Period = { unit: "day", from: Date.parse("2026-03-01"), until: Date.parse("2026-03-04") };
const total = (name: string, split: string, calls: number, more: Partial<Total> = {}): Total => ({
  name,
  split,
  calls,
  errors: 0,
  tokens_in: 10 * calls,
  tokens_out: calls,
  cost: null,
  p50: 1,
  p95: 2,
  p99: 3,
  ...more,
});

test("a day without calls is 0, and an unknown cost is not", () => {
  const groups = grouped([total("2026-03-01", "", 2), total("2026-03-03", "", 3, { cost: 0.5 })], three);
  const columns = groups.get("") ?? [];
  expect(summed("calls", columns, (sums) => sums.calls).values).toEqual([2, 0, 3]);
  expect(summed("cost", columns, (sums) => sums.cost).values).toEqual([null, 0, 0.5]);
  expect(percentile("p95", columns, "p95").values).toEqual([2, null, 2]);
});

test("the largest series come first, and many small ones become one", () => {
  const totals = ["a", "b", "c", "d", "e", "f", "g"].map((name, nth) => total("2026-03-02", name, 10 + nth));
  const groups = grouped(totals, three);
  expect([...groups.keys()]).toEqual(["g", "f", "e", "d", "c", OTHERS]);
  const others = groups.get(OTHERS) ?? [];
  expect(summed(OTHERS, others, (sums) => sums.calls).values).toEqual([0, 21, 0]);
  expect(percentile(OTHERS, others, "p50").values).toEqual([null, null, null]);
});

test("totals outside the period are not counted", () => {
  expect(grouped([total("2026-02-01", "", 2)], three).get("")).toEqual([[], [], []]);
});

test("unknown values stay unknown in sums", () => {
  expect(addUp([]).cost).toBeNull();
  expect(addUp([total("x", "", 1), total("x", "", 1, { cost: 0.25, errors: 1 })])).toEqual({
    calls: 2,
    errors: 1,
    tokens_in: 20,
    tokens_out: 2,
    cost: 0.25,
  });
});

test("unknown tokens and latencies are left out", () => {
  const unknown = { tokens_in: null, tokens_out: null, p50: null, p95: null, p99: null };
  expect(addUp([total("x", "", 1, unknown)]).tokens_in).toBeNull();
  expect(addUp([total("x", "", 1, unknown), total("x", "", 2)]).tokens_in).toBe(20);
  expect(highestP95([total("x", "", 1, unknown)])).toBeNull();
  expect(highestP95([total("x", "", 1, unknown), total("x", "", 1, { p95: 7 })])).toBe(7);
  expect(formatKnown(null, String)).toBe("–");
  expect(formatKnown(0, String)).toBe("0");
});

test.each([
  [0, 0, "no change"],
  [5, 0, "none before"],
  [150, 100, "+50 %"],
  [50, 100, "−50 %"],
  [100, 100, "no change"],
  [2000, 100, "×20"],
  [null, 3, ""],
])("%s after %s", (now, then, text) => expect(change(now, then)).toBe(text));
