import { expect, test } from "vitest";
import { isLater } from "./lookup";
import { reasonOf } from "./reason";
import { changes, grouped, type Item, percent } from "./report";
import { budgetAt, MAX_BUDGET, MIN_BUDGET, STEPS, stepOf } from "./scale";
import { called, sourceOf } from "./source";

const item = (layer: string, source: string, tokens = 10): Item => ({ layer, source, tokens, reason: "" });

test("a recall reason has a score, retrievers and signals", () => {
  expect(reasonOf("recalled at 0.74 by words and vectors: answer 0.66, session's words -0.52")).toEqual({
    words: "by words and meaning",
    score: 0.74,
    legs: ["words", "vectors"],
    isNeighbour: false,
    signals: [
      ["answer", 0.66],
      ["session's words", -0.52],
    ],
  });
  expect(reasonOf("recalled at 0.31 beside another")).toMatchObject({ score: 0.31, isNeighbour: true, legs: [] });
  expect(reasonOf("recalled at 0.31: words 0.20")).toMatchObject({ score: 0.31, legs: [], signals: [["words", 0.2]] });
  expect(reasonOf("recent, shortened to fit")).toMatchObject({ words: "recent, shortened to fit", score: null });
});

test("every source of a report is parsed by its kind", () => {
  expect(sourceOf("messages 12")).toEqual({ kind: "message", session: null, seq: 12 });
  expect(sourceOf("messages a trip 12")).toEqual({ kind: "message", session: "a trip", seq: 12 });
  expect(sourceOf("messages 1–9")).toEqual({ kind: "messages", first: 1, last: 9 });
  expect(sourceOf("state session:s theme of it")).toEqual({ kind: "state", owner: "session:s", key: "theme of it" });
  expect(sourceOf("notes v3.2")).toEqual({ kind: "notes", version: 3, part: 2 });
  expect(sourceOf("notes, section 4")).toEqual({ kind: "section", nth: 4 });
  expect(sourceOf("documents doc 1 3")).toEqual({ kind: "passage", document: "doc 1", seq: 3 });
  expect(called(sourceOf("documents doc 1 3"))).toBe("Passage 3 of a document"); // passages count from 1
  expect(sourceOf("refs, still older")).toEqual({ kind: "other", text: "refs, still older" });
  expect(sourceOf("agents the scout")).toEqual({ kind: "agent", name: "the scout" });
  expect(sourceOf("facts 0199")).toEqual({ kind: "fact", id: "0199" });
  expect(called(sourceOf("facts, 12 in all"))).toBe("12 facts in all");
  expect(called(sourceOf("new"))).toBe("The new message");
  expect(called(sourceOf("never heard of"))).toBe("never heard of");
});

test("layers are in the order of the prompt, unknown ones last", () => {
  const groups = grouped([
    item("message", "new"),
    item("odd", "x"),
    item("window", "messages 1", 5),
    item("facts", "facts 1"),
    item("system", "a"),
  ]);
  expect(groups.map((group) => group.layer.name)).toEqual(["system", "facts", "window", "message", "odd"]);
});

test("added and dropped items", () => {
  const before = [item("window", "messages 1"), item("window", "messages 2"), item("frame", "x")];
  const after = [item("window", "messages 2"), item("recall", "messages 1"), item("message", "new")];
  const { added, fell } = changes(before, after);
  expect([...added]).toEqual(["recall messages 1"]);
  expect(fell.map((dropped) => dropped.source)).toEqual(["messages 1"]);
});

test("the slider covers the range in even factors, and converts back", () => {
  expect([budgetAt(0), budgetAt(STEPS)]).toEqual([MIN_BUDGET, MAX_BUDGET]);
  for (let step = 0; step <= STEPS; step++) expect(Math.abs(stepOf(budgetAt(step)) - step)).toBe(0);
  expect(stepOf(1)).toBe(0);
});

test("a share in percent", () => {
  expect([percent(0, 10), percent(1, 1000), percent(1, 3), percent(1, 0)]).toEqual(["0 %", "< 1 %", "33 %", "0 %"]);
  expect([percent(999, 1000), percent(10, 10)]).toEqual(["> 99 %", "100 %"]);
});

test("timestamps are compared within one millisecond", () => {
  expect(isLater("2026-01-01T00:00:00.000200Z", "2026-01-01T00:00:00.000100Z")).toBe(true);
  expect(isLater("2026-01-01T00:00:00.000100Z", "2026-01-01T00:00:00Z")).toBe(true);
  expect(isLater("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000100Z")).toBe(false);
  expect(isLater("2026-01-01T00:00:00.500100Z", "2026-01-01T00:00:00.500100Z")).toBe(false);
});
