import { expect, test } from "vitest";
import { inParts, pick, pickAll } from "./picking";

const items = ["a", "b", "c", "d", "e"].map((id) => ({ id }));
const ids = (picked: ReadonlyMap<string, unknown>) => [...picked.keys()].sort().join("");

test("one, then a stretch down to another, then a stretch up that is left again", () => {
  const one = pick(new Map(), items, "b", true);
  expect(ids(one)).toBe("b");
  const stretch = pick(one, items, "d", true, "b");
  expect(ids(stretch)).toBe("bcd");
  expect(ids(pick(stretch, items, "b", false, "c"))).toBe("d");
});

test("a beginning that is not shown any more is none", () => {
  expect(ids(pick(new Map(), items, "c", true, "gone"))).toBe("c");
});

test("all, in parts", () => {
  expect(ids(pickAll(items))).toBe("abcde");
  expect(inParts(items, 2).map((part) => part.length)).toEqual([2, 2, 1]);
});
