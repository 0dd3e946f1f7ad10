import { expect, test } from "vitest";
import { nameOf, onOtherActive } from "./session";

test("each user and agent has its own storage key", () => {
  expect(nameOf("ada", "scout")).toBe("chatSession_ada_scout");
});

test("another window's conversation is followed only if nothing would be lost", () => {
  expect(onOtherActive("a", "a", { count: 5, hasUnsent: false })).toBe("stay");
  expect(onOtherActive("a", null, { count: 5, hasUnsent: false })).toBe("stay");
  expect(onOtherActive("a", "b", { count: 0, hasUnsent: false })).toBe("follow");
  expect(onOtherActive("a", "b", { count: 0, hasUnsent: true })).toBe("ask");
  expect(onOtherActive("a", "b", { count: 5, hasUnsent: false })).toBe("ask");
});
