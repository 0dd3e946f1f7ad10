import { expect, test } from "vitest";
import { BLANK, changes, differences, merged } from "./draft";

const base = { ...BLANK, prompt: "You scout.", tools: ["a", "b"] };

test("only changed fields are sent, and the order of tools is no change", () => {
  expect(changes(base, { ...base, tools: ["b", "a"] })).toEqual({});
  expect(changes(base, { ...base, icon: "🦊", tools: [] })).toEqual({ icon: "🦊", tools: [] });
});

test("a merge keeps my changes and takes theirs for the rest", () => {
  const theirs = { ...base, model: "big", icon: "🐢" };
  const mine = { ...base, icon: "🦊" };
  expect(merged(base, mine, theirs)).toEqual({ ...base, model: "big", icon: "🦊" });
  expect(differences(base, theirs)).toEqual(["model", "icon"]);
});
