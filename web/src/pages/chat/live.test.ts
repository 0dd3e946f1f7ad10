import { expect, test } from "vitest";
import { heard, type Live, nothing, paragraphs } from "./live";

const tell = (live: Live, ...events: [string, object][]) =>
  events.reduce(
    (now, [name, data], place) => heard(now, { id: String(Number(live.last || 0) + place + 1), name, data }),
    live,
  );

test("text grows, tools stand between, and the whole answer takes its place", () => {
  const live = tell(
    nothing(),
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
  expect(live.asked).toBe(1);
  expect(live.voices).toEqual([
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

test("the agents of a group speak one after the other", () => {
  const live = tell(
    nothing(),
    ["text", { agent_id: "a", text: "One" }],
    ["message", { agent_id: "a", message: "One" }],
    [
      "error",
      { agent_id: "b", detail: "It failed. Send it again with the key 'k'.", status: 503, type: "ModelUnavailable" },
    ],
  );
  expect(live.voices.map((voice) => [voice.agent, voice.done, voice.error])).toEqual([
    ["a", true, ""],
    ["b", false, "It failed."],
  ]);
});

test("events that are told again do not double anything", () => {
  const before = tell(nothing(), ["start", { agent_id: "a" }], ["text", { agent_id: "a", text: "Hello" }]);
  const again = heard(heard(before, { id: "1", name: "start", data: { agent_id: "a" } }), {
    id: "2",
    name: "text",
    data: { agent_id: "a", text: "Hello" },
  });
  expect(again.voices[0]?.blocks).toEqual([{ type: "text", text: "Hello" }]);
});

test("a growing text is cut between paragraphs, never inside of code or a list", () => {
  expect(paragraphs("One\n\nTwo")).toEqual(["One", "Two"]);
  expect(paragraphs("```\na\n\nb\n```\n\nAfter")).toEqual(["```\na\n\nb\n```", "After"]);
  expect(paragraphs("- a\n\n- b")).toEqual(["- a\n\n- b"]);
  expect(paragraphs("")).toEqual([""]);
});
