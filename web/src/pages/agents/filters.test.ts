import { expect, test } from "vitest";
import { folded, isFiltered, matches, NO_FILTER, queryOf } from "./filters";

test("an empty filter sends no parameters", () => {
  expect(Object.values(queryOf(NO_FILTER)).filter((value) => value !== undefined)).toEqual([]);
  expect(isFiltered(NO_FILTER)).toBe(false);
  expect(folded({ ...NO_FILTER, state: "faded", everybody: true })).toBe(2);
});

test("the last day is included", () => {
  const { since, until } = queryOf({ ...NO_FILTER, since: "2026-11-30", until: "2026-11-30" });
  expect(Date.parse(until ?? "") - Date.parse(since ?? "")).toBe(86_400_000);
  expect(queryOf({ ...NO_FILTER, until: "2026-1" }).until).toBeUndefined();
});

test("states become parameters of the list", () => {
  expect(queryOf({ ...NO_FILTER, state: "fresh" }).expired).toBe(false);
  expect(queryOf({ ...NO_FILTER, state: "faded" }).expired).toBe(true);
  expect(queryOf({ ...NO_FILTER, state: "pending" }).review).toBe("pending");
});

test("hits by meaning are filtered the same way, without whiteboards", () => {
  const entry = { kind: "core", expired: false, review: "accepted" } as const;
  expect(matches(NO_FILTER, entry)).toBe(true);
  expect(matches(NO_FILTER, { ...entry, kind: "whiteboard" })).toBe(false);
  expect(matches({ ...NO_FILTER, kind: "journal" }, entry)).toBe(false);
  expect(matches({ ...NO_FILTER, state: "pending" }, entry)).toBe(false);
});
