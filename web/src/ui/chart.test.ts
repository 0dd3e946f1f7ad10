import { expect, test } from "vitest";
import { compact, duration, highest, labelFilter, lineSegments, money, stack, ticks } from "./chart";

test.each([
  [0, [0, 1]],
  [1, [0, 0.25, 0.5, 0.75, 1]],
  [7, [0, 2, 4, 6, 8]],
  [100, [0, 25, 50, 75, 100]],
  [1234, [0, 500, 1000, 1500]],
  [0.0031, [0, 0.001, 0.002, 0.003, 0.004]],
  [Number.NaN, [0, 1]],
])("steps up to %d are round", (max, steps) => expect(ticks(max)).toEqual(steps));

test("stacked series add up, and a missing value has no bar", () => {
  const series = [
    { name: "a", values: [1, 0, null] },
    { name: "b", values: [2, 3, 4] },
  ];
  expect(highest(series, true)).toBe(4);
  expect(
    highest(
      [
        { name: "a", values: [1, 9] },
        { name: "b", values: [2, 3] },
      ],
      true,
    ),
  ).toBe(12);
  expect(highest(series, false)).toBe(4);
  expect(stack(series, 0)).toEqual([
    [0, 1],
    [1, 3],
  ]);
  expect(stack(series, 1)).toEqual([null, [0, 3]]);
  expect(stack(series, 2)).toEqual([null, [0, 4]]);
  expect(highest([], true)).toBe(0);
});

test("a line has a gap where a value is missing", () => {
  expect(lineSegments([null, 1, 2, null, 3])).toEqual([
    [
      [1, 1],
      [2, 2],
    ],
    [[4, 3]],
  ]);
  expect(lineSegments([null, null])).toEqual([]);
});

test("labels do not touch, and the newest column has one", () => {
  const shown = labelFilter(30, 600, 60);
  const indices = Array.from({ length: 30 }, (_, index) => index).filter(shown);
  expect(indices.at(-1)).toBe(29);
  expect(indices.length).toBeLessThanOrEqual(10);
  expect(labelFilter(3, 600, 60)(0)).toBe(true);
});

test.each([
  [0, "0"],
  [999, "999"],
  [1234, "1.23k"],
  [12_000_000, "12M"],
  [2.5e9, "2.5G"],
])("%d in few letters", (value, text) => expect(compact(value)).toBe(text));

test.each([
  [0, "$0"],
  [0.00042, "$0.00042"],
  [0.5, "$0.50"],
  [1234.5, "$1,234.50"],
])("%d as money", (value, text) => expect(money(value)).toBe(text));

test.each([
  [0.25, "0.25 ms"],
  [12.4, "12 ms"],
  [1530, "1.53 s"],
])("%d ms as a time", (value, text) => expect(duration(value)).toBe(text));

test("ticks of counts are integers", () => {
  expect(ticks(1, 4, true)).toEqual([0, 1]);
  expect(ticks(3, 4, true)).toEqual([0, 1, 2, 3]);
  expect(ticks(9, 4, true)).toEqual([0, 5, 10]);
  for (const highest of [1, 2, 3, 5, 7, 11, 50, 99, 101]) {
    expect(ticks(highest, 4, true).every(Number.isInteger)).toBe(true);
  }
});
