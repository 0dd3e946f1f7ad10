import { expect, test } from "vitest";
import { elsewhere, nameOf, settle } from "./session";

test("an id that the server confirms is kept", () => {
  expect(settle("a", { id: "a", count: 3 })).toEqual({ id: "a", how: "confirmed" });
});

test("a stale id is dropped for the server's active conversation", () => {
  expect(settle("old", { id: "a", count: 3 })).toEqual({ id: "a", how: "active", dropped: "old" });
});

test("without any, it is the new one that both sides keep", () => {
  expect(settle(null, { id: "new", count: 0 })).toEqual({ id: "new", how: "new", dropped: null });
});

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
