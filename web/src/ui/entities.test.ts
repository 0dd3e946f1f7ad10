import { fromMarkdown } from "mdast-util-from-markdown";
import { expect, test } from "vitest";
import { decodeNamedCharacterReference } from "./entities";

test("names that people write, and none that nobody knows", () => {
  expect(decodeNamedCharacterReference("lt")).toBe("<");
  expect(decodeNamedCharacterReference("nbsp")).toBe("\u00a0");
  expect(decodeNamedCharacterReference("Uuml")).toBe("Ü");
  for (const name of ["constructor", "__proto__", "&", "nothing", ""])
    expect(decodeNamedCharacterReference(name)).toBe(false);
});

test("Markdown reads them without a page", () => {
  expect(JSON.stringify(fromMarkdown("R&amp;D &lt;b&gt; &copy; &#65;"))).toContain("R&D <b> © A");
});
