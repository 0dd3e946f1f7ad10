import { expect, test } from "vitest";
import { BLANK, changes, differences, merged } from "./draft";

const before = { ...BLANK, prompt: "You scout.", tools: ["a", "b"] };

test("only what changed is sent, and the order of tools is no change", () => {
  expect(changes(before, { ...before, tools: ["b", "a"] })).toEqual({});
  expect(changes(before, { ...before, icon: "🦊", tools: [] })).toEqual({ icon: "🦊", tools: [] });
});

test("what I changed is mine, the rest is theirs", () => {
  const theirs = { ...before, model: "big", icon: "🐢" };
  const mine = { ...before, icon: "🦊" };
  expect(merged(before, mine, theirs)).toEqual({ ...before, model: "big", icon: "🦊" });
  expect(differences(before, theirs)).toEqual(["model", "icon"]);
});
