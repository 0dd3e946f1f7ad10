import { expect, test } from "vitest";
import type { Total } from "../../api/index";
import { known } from "../../ui/chart";
import type { Period } from "./period";
import { change, grouped, highestP95, OTHERS, percentile, sum, summed } from "./totals";

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

test("a day without calls is 0, and a cost that nobody knows is not", () => {
  const found = grouped([total("2026-03-01", "", 2), total("2026-03-03", "", 3, { cost: 0.5 })], three);
  const places = found.get("") ?? [];
  expect(summed("calls", places, (all) => all.calls).values).toEqual([2, 0, 3]);
  expect(summed("cost", places, (all) => all.cost).values).toEqual([null, 0, 0.5]);
  expect(percentile("p95", places, "p95").values).toEqual([2, null, 2]);
});

test("the largest come first, and many small ones are one", () => {
  const many = ["a", "b", "c", "d", "e", "f", "g"].map((name, nth) => total("2026-03-02", name, 10 + nth));
  const found = grouped(many, three);
  expect([...found.keys()]).toEqual(["g", "f", "e", "d", "c", OTHERS]);
  const others = found.get(OTHERS) ?? [];
  expect(summed(OTHERS, others, (all) => all.calls).values).toEqual([0, 21, 0]);
  expect(percentile(OTHERS, others, "p50").values).toEqual([null, null, null]);
});

test("what is outside of the period is not counted in", () => {
  expect(grouped([total("2026-02-01", "", 2)], three).get("")).toEqual([[], [], []]);
});

test("sums keep what is unknown unknown", () => {
  expect(sum([]).cost).toBeNull();
  expect(sum([total("x", "", 1), total("x", "", 1, { cost: 0.25, errors: 1 })])).toEqual({
    calls: 2,
    errors: 1,
    tokens_in: 20,
    tokens_out: 2,
    cost: 0.25,
  });
});

test("tokens and latencies that are not known are left out", () => {
  const unknown = { tokens_in: null, tokens_out: null, p50: null, p95: null, p99: null };
  expect(sum([total("x", "", 1, unknown)]).tokens_in).toBeNull();
  expect(sum([total("x", "", 1, unknown), total("x", "", 2)]).tokens_in).toBe(20);
  expect(highestP95([total("x", "", 1, unknown)])).toBeNull();
  expect(highestP95([total("x", "", 1, unknown), total("x", "", 1, { p95: 7 })])).toBe(7);
  expect(known(null, String)).toBe("–");
  expect(known(0, String)).toBe("0");
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
