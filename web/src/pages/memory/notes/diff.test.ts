import { expect, test } from "vitest";
import { common, difference, lines, unified } from "./diff";

test("lines give their text back", () => {
  for (const text of ["", "a", "a\n", "\n", "a\n\nb", "\n\na\n"]) expect(lines(text).join("\n")).toBe(text);
});

test("the same lines are found in order, also where they moved", () => {
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

test("a change is told by the lines that are new and by how many went", () => {
  expect(difference("# A\n- tea", "# A\n- coffee\n- cake")).toEqual({ changed: new Set([2, 3]), added: 2, removed: 1 });
  expect(difference("a\nb", "a").removed).toBe(1);
  expect(difference("", "a").added).toBe(1);
  expect(difference("a", "a\n\nb").changed).toEqual(new Set([3]));
});

test("large texts that share nothing are no work for hours", () => {
  const [a, b] = ["a", "b"].map((name) => Array.from({ length: 5000 }, (_, place) => `${name}${place}`));
  expect(common(["x", ...(a as string[])], ["x", ...(b as string[])])).toEqual([[0, 0]]);
});

test("a unified diff by its signs", () => {
  const said = "--- notes v1\n+++ notes v2\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+--- c\n+\n";
  expect(unified(said)).toEqual([
    { sign: "@", text: "@@ -1,2 +1,2 @@" },
    { sign: " ", text: "a" },
    { sign: "-", text: "b" },
    { sign: "+", text: "--- c" },
    { sign: "+", text: "" },
  ]);
  expect(unified("")).toEqual([]);
});
