import { expect, test } from "vitest";
import { begun, came, failed, type Held, NOTHING } from "./held";

const nothing: Held<string> = NOTHING;
const lisbon = came(1, "Lisbon");

test("an answer stays while it is asked for again, also when that fails", () => {
  const again = begun(lisbon, 1);
  expect(again).toMatchObject({ data: "Lisbon", loading: true, stale: false });
  expect(failed(again, 1, "away")).toMatchObject({ data: "Lisbon", error: "away", loading: false });
});

test("an answer to another question is known for it, and goes when this one fails", () => {
  const other = begun(lisbon, 2);
  expect(other).toMatchObject({ data: "Lisbon", stale: true });
  expect(failed(other, 2, "away")).toEqual({
    question: 2,
    data: undefined,
    error: "away",
    loading: false,
    stale: false,
  });
  expect(begun(failed(other, 2, "away"), 2)).toMatchObject({ loading: true, stale: false });
});

test("nothing is not an old answer, and a failure goes when it is tried again", () => {
  expect(begun(nothing, 0)).toMatchObject({ data: undefined, stale: false, loading: true });
  expect(begun(failed(nothing, 0, "away"), 0).error).toBeUndefined();
});
