import { expect, test } from "vitest";
import { common, difference, lines, unified } from "./diff";

test("joined lines give the text", () => {
  for (const text of ["", "a", "a\n", "\n", "a\n\nb", "\n\na\n"]) expect(lines(text).join("\n")).toBe(text);
});

test("common lines are found in order, also after a move", () => {
  expect(common(["a", "b", "c"], ["a", "x", "c"])).toEqual([
    [0, 0],
    [2, 2],
  ]);
  expect(common(["a", "b", "c", "d"], ["b", "d"])).toEqual([
    [1, 0],
    [3, 1],
  ]);
  expect(common([], ["a"])).toEqual([]);
  expect(common(["a", "a"], ["a"])).toEqual([[0, 0]]);
});

test("a difference has the new lines and the number of removed ones", () => {
  expect(difference("# A\n- tea", "# A\n- coffee\n- cake")).toEqual({ changed: new Set([2, 3]), added: 2, removed: 1 });
  expect(difference("a\nb", "a").removed).toBe(1);
  expect(difference("", "a").added).toBe(1);
  expect(difference("a", "a\n\nb").changed).toEqual(new Set([3]));
});

test("large texts without common lines are compared quickly", () => {
  const [a, b] = ["a", "b"].map((name) => Array.from({ length: 5000 }, (_, index) => `${name}${index}`));
  expect(common(["x", ...(a as string[])], ["x", ...(b as string[])])).toEqual([[0, 0]]);
});

test("a unified diff is parsed by its signs", () => {
  const expected = "--- notes v1\n+++ notes v2\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+--- c\n+\n";
  expect(unified(expected)).toEqual([
    { sign: "@", text: "@@ -1,2 +1,2 @@" },
    { sign: " ", text: "a" },
    { sign: "-", text: "b" },
    { sign: "+", text: "--- c" },
    { sign: "+", text: "" },
  ]);
  expect(unified("")).toEqual([]);
});
