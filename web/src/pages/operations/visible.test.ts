import { expect, test } from "vitest";
import { visible } from "./visible";

test("plain text is one part, with its line breaks", () => {
  expect(visible("two\n\tlines 🙂 naïve")).toEqual([{ text: "two\n\tlines 🙂 naïve", hidden: false }]);
  expect(visible("")).toEqual([]);
});

test("invisible characters are shown as code points", () => {
  expect(visible("a\u200bb\u{e0041}")).toEqual([
    { text: "a", hidden: false },
    { text: "U+200B", hidden: true },
    { text: "b", hidden: false },
    { text: "U+E0041", hidden: true },
  ]);
  expect(visible("\u202e")[0]).toEqual({ text: "U+202E", hidden: true });
});
