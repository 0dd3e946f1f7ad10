import { fromMarkdown } from "mdast-util-from-markdown";
import { expect, test } from "vitest";
import { decodeNamedCharacterReference } from "./entities";

test("decodes common entity names and no unknown ones", () => {
  expect(decodeNamedCharacterReference("lt")).toBe("<");
  expect(decodeNamedCharacterReference("nbsp")).toBe("\u00a0");
  expect(decodeNamedCharacterReference("Uuml")).toBe("Ü");
  for (const name of ["constructor", "__proto__", "&", "nothing", ""])
    expect(decodeNamedCharacterReference(name)).toBe(false);
});

test("Markdown decodes entities without a document", () => {
  expect(JSON.stringify(fromMarkdown("R&amp;D &lt;b&gt; &copy; &#65;"))).toContain("R&D <b> © A");
});
