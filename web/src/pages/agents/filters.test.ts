import { expect, test } from "vitest";
import { asked, folded, isFiltered, keeps, NO_FILTER } from "./filters";

test("nothing is asked for by a filter that says nothing", () => {
  expect(Object.values(asked(NO_FILTER)).filter((value) => value !== undefined)).toEqual([]);
  expect(isFiltered(NO_FILTER)).toBe(false);
  expect(folded({ ...NO_FILTER, state: "faded", everybody: true })).toBe(2);
});

test("the last day is meant whole", () => {
  const { since, until } = asked({ ...NO_FILTER, since: "2026-11-30", until: "2026-11-30" });
  expect(Date.parse(until ?? "") - Date.parse(since ?? "")).toBe(86_400_000);
  expect(asked({ ...NO_FILTER, until: "2026-1" }).until).toBeUndefined();
});

test("states become what the list takes", () => {
  expect(asked({ ...NO_FILTER, state: "fresh" }).expired).toBe(false);
  expect(asked({ ...NO_FILTER, state: "faded" }).expired).toBe(true);
  expect(asked({ ...NO_FILTER, state: "pending" }).review).toBe("pending");
});

test("what is found by its meaning is filtered the same way, and boards are elsewhere", () => {
  const entry = { kind: "core", expired: false, review: "accepted" } as const;
  expect(keeps(NO_FILTER, entry)).toBe(true);
  expect(keeps(NO_FILTER, { ...entry, kind: "whiteboard" })).toBe(false);
  expect(keeps({ ...NO_FILTER, kind: "journal" }, entry)).toBe(false);
  expect(keeps({ ...NO_FILTER, state: "pending" }, entry)).toBe(false);
});
