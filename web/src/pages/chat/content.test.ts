import { expect, test } from "vitest";
import type { Message } from "../../api/index";
import { calls, dayOf, isAnswer, pictures, results, words } from "./content";

const message = (role: string, content: object) => ({ seq: 1, role, content }) as unknown as Message;

test("the text of a message includes its text parts", () => {
  expect(words(message("user", { text: "Look", parts: [{ type: "text", text: "here" }] }))).toBe("Look\n\nhere");
  const image = { type: "reference", media_type: "image/png", key: "k", text: "[MemoryRef: k - An image]" };
  expect(words(message("user", { text: "Look", parts: [image] }))).toBe("Look");
  expect(pictures(message("user", { text: "Look", parts: [image] }))).toEqual([{ key: "k", media: "image/png" }]);
});

test("tool calls and results in the formats of several providers", () => {
  const openai = message("assistant", {
    text: "",
    tool_calls: [{ id: "1", function: { name: "f", arguments: "{}" } }],
  });
  expect(calls(openai)).toEqual([{ id: "1", name: "f", arguments: "{}" }]);
  expect(isAnswer(openai)).toBe(false);
  const parts = message("assistant", { parts: [{ type: "tool_use", id: "2", name: "g", input: { a: 1 } }] });
  expect(calls(parts)).toEqual([{ id: "2", name: "g", arguments: '{"a":1}' }]);
  expect(results(message("tool", { tool_call_id: "1", text: "done" }))).toEqual([{ id: "1", text: "done", ok: true }]);
  expect(results(message("tool", { tool_call_id: "1", text: '{"error": "no"}' }))[0]?.ok).toBe(false);
});

test("day labels", () => {
  const now = new Date(2026, 4, 3, 9);
  expect(dayOf(new Date(2026, 4, 3, 1).toISOString(), now)).toBe("Today");
  expect(dayOf(new Date(2026, 4, 2, 23).toISOString(), now)).toBe("Yesterday");
  expect(dayOf(new Date(2026, 3, 30).toISOString(), now)).toBe("Thursday 30 April");
});
