import { expect, test } from "vitest";
import { applyEvent, emptyLive, type Live, paragraphs } from "./live";

const applyAll = (live: Live, ...events: [string, object][]) =>
  events.reduce(
    (now, [name, data], index) => applyEvent(now, { id: String(Number(live.last || 0) + index + 1), name, data }),
    live,
  );

test("text grows between tool calls, and the final answer replaces it", () => {
  const live = applyAll(
    emptyLive(),
    ["start", { agent_id: "scout", asked_seq: 1 }],
    ["text", { agent_id: "scout", text: "Let me " }],
    ["text", { agent_id: "scout", text: "look." }],
    ["tool_call", { agent_id: "scout", id: "1", name: "search", arguments: "{}" }],
    ["tool_result", { agent_id: "scout", id: "1", name: "search", ok: false, short: "nothing" }],
    ["text", { agent_id: "scout", text: "Lis" }],
    ["message", { agent_id: "scout", message: "Lisbon.", asked_seq: 1, last_seq: 4 }],
    ["done", {}],
  );
  expect(live.over).toBe(true);
  expect(live.askedSeq).toBe(1);
  expect(live.replies).toEqual([
    {
      agent: "scout",
      done: true,
      error: "",
      seq: 4,
      blocks: [
        { type: "text", text: "Let me look." },
        { type: "tool", id: "1", name: "search", arguments: "{}", ok: false, short: "nothing" },
        { type: "text", text: "Lisbon." },
      ],
    },
  ]);
});

test("the agents of a group answer one after the other", () => {
  const live = applyAll(
    emptyLive(),
    ["text", { agent_id: "a", text: "One" }],
    ["message", { agent_id: "a", message: "One" }],
    [
      "error",
      {
        agent_id: "b",
        detail: "It failed. The message is stored; the turn can continue. Send it again with the key 'k'.",
        status: 503,
        type: "ModelUnavailable",
      },
    ],
  );
  expect(live.replies.map((voice) => [voice.agent, voice.done, voice.error])).toEqual([
    ["a", true, ""],
    ["b", false, "It failed."],
  ]);
});

test("repeated events do not duplicate anything", () => {
  const before = applyAll(emptyLive(), ["start", { agent_id: "a" }], ["text", { agent_id: "a", text: "Hello" }]);
  const replayed = applyEvent(applyEvent(before, { id: "1", name: "start", data: { agent_id: "a" } }), {
    id: "2",
    name: "text",
    data: { agent_id: "a", text: "Hello" },
  });
  expect(replayed.replies[0]?.blocks).toEqual([{ type: "text", text: "Hello" }]);
});

test("a growing text is split between paragraphs, never inside code or a list", () => {
  expect(paragraphs("One\n\nTwo")).toEqual(["One", "Two"]);
  expect(paragraphs("```\na\n\nb\n```\n\nAfter")).toEqual(["```\na\n\nb\n```", "After"]);
  expect(paragraphs("- a\n\n- b")).toEqual(["- a\n\n- b"]);
  expect(paragraphs("")).toEqual([""]);
});
