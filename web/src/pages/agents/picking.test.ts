import { expect, test } from "vitest";
import { inParts, pick, pickAll } from "./picking";

const items = ["a", "b", "c", "d", "e"].map((id) => ({ id }));
const ids = (selection: ReadonlyMap<string, unknown>) => [...selection.keys()].sort().join("");

test("select one, extend the range down, deselect a range up", () => {
  const single = pick(new Map(), items, "b", true);
  expect(ids(single)).toBe("b");
  const stretch = pick(single, items, "d", true, "b");
  expect(ids(stretch)).toBe("bcd");
  expect(ids(pick(stretch, items, "b", false, "c"))).toBe("d");
});

test("an anchor that is no longer listed is ignored", () => {
  expect(ids(pick(new Map(), items, "c", true, "gone"))).toBe("c");
});

test("select all, and split into parts", () => {
  expect(ids(pickAll(items))).toBe("abcde");
  expect(inParts(items, 2).map((part) => part.length)).toEqual([2, 2, 1]);
});
