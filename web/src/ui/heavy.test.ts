import { expect, test } from "vitest";
import { heavy } from "./heavy";

test.each([
  `${">".repeat(4000)}a`,
  "- ".repeat(1500),
  "1. ".repeat(400),
  `a\n${"> - ".repeat(20)}b`,
  "*a_b".repeat(5000),
  "[".repeat(9000),
  "a\n=\n".repeat(3000),
  Array.from({ length: 100 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n"),
  "a".repeat(200_001),
])("a text that was made to keep a browser busy is heavy %#", (text) => {
  expect(heavy(text)).toBe(true);
});

test.each([
  "",
  "-".repeat(500),
  `${"*".repeat(300)}\n${"=".repeat(300)}`,
  "> > > quoted\n\n- a\n  - b\n    - c\n\n1. d",
  "## Heading\n\nSome **bold** words and `code`.\n\n- one\n- another\n\n".repeat(400),
  "The quick brown fox jumps over the lazy dog. ".repeat(4000),
])("what people and models write is not %#", (text) => {
  expect(heavy(text)).toBe(false);
});
