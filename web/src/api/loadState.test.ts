import { expect, test } from "vitest";
import { failed, type LoadState, NOTHING, started, succeeded } from "./loadState";

const nothing: LoadState<string> = NOTHING;
const lisbon = succeeded(1, "Lisbon");

test("data stays while it is reloaded, also when that fails", () => {
  const reloaded = started(lisbon, 1);
  expect(reloaded).toMatchObject({ data: "Lisbon", loading: true, stale: false });
  expect(failed(reloaded, 1, "away")).toMatchObject({ data: "Lisbon", error: "away", loading: false });
});

test("data of another request is stale, and is removed when this one fails", () => {
  const other = started(lisbon, 2);
  expect(other).toMatchObject({ data: "Lisbon", stale: true });
  expect(failed(other, 2, "away")).toEqual({
    question: 2,
    data: undefined,
    error: "away",
    loading: false,
    stale: false,
  });
  expect(started(failed(other, 2, "away"), 2)).toMatchObject({ loading: true, stale: false });
});

test("no data is not stale, and a retry clears the error", () => {
  expect(started(nothing, 0)).toMatchObject({ data: undefined, stale: false, loading: true });
  expect(started(failed(nothing, 0, "away"), 0).error).toBeUndefined();
});
