import { expect, test } from "vitest";
import { elsewhere, nameOf } from "./session";

test("each user and agent has a place of their own", () => {
  expect(nameOf("ada", "scout")).toBe("chatSession_ada_scout");
});

test("another window's conversation is followed only where nothing would be lost", () => {
  expect(elsewhere("a", "a", { count: 5, unsaid: false })).toBe("stay");
  expect(elsewhere("a", null, { count: 5, unsaid: false })).toBe("stay");
  expect(elsewhere("a", "b", { count: 0, unsaid: false })).toBe("follow");
  expect(elsewhere("a", "b", { count: 0, unsaid: true })).toBe("ask");
  expect(elsewhere("a", "b", { count: 5, unsaid: false })).toBe("ask");
});
