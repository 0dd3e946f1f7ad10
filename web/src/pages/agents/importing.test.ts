import { expect, test } from "vitest";
import { batches, compared, meant, read } from "./importing";

const now = Date.parse("2026-11-15T12:00:00Z");
const wrongs = (text: string) => read(text, now).map((one) => one.wrong ?? "");

test("a list, a list in an object, and one object a line are the same", () => {
  const entry = { content: "Ada prefers trains.", kind: "core" };
  const list = read(JSON.stringify([entry]), now);
  expect(list).toEqual([{ where: "entry 1", entry, wrong: undefined }]);
  expect(read(JSON.stringify({ entries: [entry] }), now)).toEqual(list);
  expect(read(`\uFEFF${JSON.stringify(entry)}\r\n\n${JSON.stringify(entry)}\n`, now).map((one) => one.where)).toEqual([
    "line 1",
    "line 3",
  ]);
});

test("what is wrong is said of its line", () => {
  const lines = ['{"content": "good"}', "{broken", '{"content": " "}', '{"content": "x", "colour": 1}', "7"];
  const found = wrongs(lines.join("\n"));
  expect(found[0]).toBe("");
  expect(found[1]).toContain("not JSON");
  expect(found[2]).toBe("is blank");
  expect(found[3]).toContain("colour");
  expect(found[4]).toBe("is no JSON object");
  expect(wrongs("[1,")[0]).toContain("not JSON");
  expect(wrongs("")).toEqual(["is empty"]);
});

test("kinds, sizes and times are the server's", () => {
  const one = (entry: object) => wrongs(JSON.stringify([entry]))[0];
  expect(one({ content: "x", kind: "whiteboard" })).toContain("whiteboard");
  expect(one({ content: "x", kind: "diary" })).toContain("diary");
  expect(one({ content: "😀".repeat(10_000) })).toBe("");
  expect(one({ content: "😀".repeat(10_001) })).toContain("10,001");
  expect(one({ content: "x", created_at: "yesterday" })).toContain("no moment");
  expect(one({ content: "x", created_at: "2027-01-01T00:00:00Z" })).toContain("future");
});

test("what is here already, or twice in the file, is left out; another's id is not", () => {
  const present = [{ id: "1", kind: "core", content: "Ada lives in Porto." }];
  const entries = [
    { id: "1", kind: "core", content: "Ada lives in Porto." },
    { kind: "core", content: " Ada lives in Porto. " },
    { id: "1", kind: "core", content: "Ada lives in Lisbon." },
    { id: "2", content: "New." },
    { id: "3", content: "New." },
  ];
  const found = compared(read(JSON.stringify(entries), now), present);
  expect(found.map((one) => (one.wrong ? "wrong" : one.same ? "same" : "new"))).toEqual([
    "same",
    "same",
    "wrong",
    "new",
    "same",
  ]);
});

test("batches are small in number and in size, and lose nothing", () => {
  const given = read(JSON.stringify(Array.from({ length: 450 }, (_, at) => ({ content: `Entry ${at}` }))), now);
  const made = batches(given);
  expect(made.map((batch) => batch.length)).toEqual([200, 200, 50]);
  expect(made.flat()).toEqual(given);
  const large = read(JSON.stringify(Array.from({ length: 3 }, () => ({ content: "x".repeat(9000) }))), now);
  expect(batches(large, 200, 30_000).length).toBe(3);
});

test("an error names its entry", () => {
  expect(meant("entries[12].content")).toBe(12);
  expect(meant("content")).toBeNull();
  expect(meant(null)).toBeNull();
});
