import { expect, test } from "vitest";
import { pieces } from "./placeholder";

test("a placeholder is separated from the text around it", () => {
  expect(pieces("Ran. [MemoryRef: npm-install-7f3a - added 214 packages] Done.")).toEqual([
    "Ran. ",
    { key: "npm-install-7f3a", description: "added 214 packages" },
    " Done.",
  ]);
  expect(pieces("[MemoryRef: a][MemoryRef: b - ]")).toEqual([
    { key: "a", description: "" },
    { key: "b", description: "" },
  ]);
});

test("an invalid placeholder stays text", () => {
  for (const text of [
    "[memoryref: a - x]",
    "[quoted MemoryRef: a - x]",
    "[MemoryRef:a]",
    "[MemoryRef: -a]",
    "[MemoryRef: a - two\nlines]",
    "[MemoryRef: a - [nested]",
    `[MemoryRef: ${"a".repeat(256)}]`,
    "[MemoryRef: a -x]",
    "",
  ]) {
    expect(pieces(text)).toEqual(text ? [text] : []);
  }
  expect(pieces(`[MemoryRef: ${"a".repeat(255)}]`)).toEqual([{ key: "a".repeat(255), description: "" }]);
});
