import { expect, test } from "vitest";
import { batches, failedIndex, markExisting, read } from "./importing";

const now = Date.parse("2026-11-15T12:00:00Z");
const errors = (text: string) => read(text, now).map((item) => item.error ?? "");

test("a list, a list in an object, and one object per line are parsed the same", () => {
  const entry = { content: "Ada prefers trains.", kind: "core" };
  const list = read(JSON.stringify([entry]), now);
  expect(list).toEqual([{ position: "entry 1", entry, error: undefined }]);
  expect(read(JSON.stringify({ entries: [entry] }), now)).toEqual(list);
  expect(
    read(`\uFEFF${JSON.stringify(entry)}\r\n\n${JSON.stringify(entry)}\n`, now).map((item) => item.position),
  ).toEqual(["line 1", "line 3"]);
});

test("errors name their line", () => {
  const lines = ['{"content": "good"}', "{broken", '{"content": " "}', '{"content": "x", "colour": 1}', "7"];
  const result = errors(lines.join("\n"));
  expect(result[0]).toBe("");
  expect(result[1]).toContain("not JSON");
  expect(result[2]).toBe("is blank");
  expect(result[3]).toContain("colour");
  expect(result[4]).toBe("is not a JSON object");
  expect(errors("[1,")[0]).toContain("not JSON");
  expect(errors("")).toEqual(["is empty"]);
});

test("kinds, sizes and times are validated as on the server", () => {
  const errorOf = (entry: object) => errors(JSON.stringify([entry]))[0];
  expect(errorOf({ content: "x", kind: "whiteboard" })).toContain("whiteboard");
  expect(errorOf({ content: "x", kind: "diary" })).toContain("diary");
  expect(errorOf({ content: "😀".repeat(10_000) })).toBe("");
  expect(errorOf({ content: "😀".repeat(10_001) })).toContain("10,001");
  expect(errorOf({ content: "x", created_at: "yesterday" })).toContain("not a time");
  expect(errorOf({ content: "x", created_at: "2027-01-01T00:00:00Z" })).toContain("future");
});

test("existing and repeated entries are skipped; a taken id is an error", () => {
  const present = [{ id: "1", kind: "core", content: "Ada lives in Porto." }];
  const entries = [
    { id: "1", kind: "core", content: "Ada lives in Porto." },
    { kind: "core", content: " Ada lives in Porto. " },
    { id: "1", kind: "core", content: "Ada lives in Lisbon." },
    { id: "2", content: "New." },
    { id: "3", content: "New." },
  ];
  const result = markExisting(read(JSON.stringify(entries), now), present);
  expect(result.map((item) => (item.error ? "wrong" : item.same ? "same" : "new"))).toEqual([
    "same",
    "same",
    "wrong",
    "new",
    "same",
  ]);
});

test("batches are limited in number and size, and lose nothing", () => {
  const entries = read(JSON.stringify(Array.from({ length: 450 }, (_, at) => ({ content: `Entry ${at}` }))), now);
  const parts = batches(entries);
  expect(parts.map((batch) => batch.length)).toEqual([200, 200, 50]);
  expect(parts.flat()).toEqual(entries);
  const large = read(JSON.stringify(Array.from({ length: 3 }, () => ({ content: "x".repeat(9000) }))), now);
  expect(batches(large, 200, 30_000).length).toBe(3);
});

test("an error names its entry", () => {
  expect(failedIndex("entries[12].content")).toBe(12);
  expect(failedIndex("content")).toBeNull();
  expect(failedIndex(null)).toBeNull();
});
