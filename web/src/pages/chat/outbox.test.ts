import { expect, test } from "vitest";
import type { Message } from "../../api/index";
import { drop, fitting, placeOf, put, type Sent, waiting } from "./outbox";

const sent = (more: Partial<Sent> = {}): Sent => ({
  key: "k",
  session: "s",
  agents: ["a"],
  text: "Hello",
  images: [],
  after: 2,
  at: "2026-01-01T00:00:00Z",
  state: "sending",
  ...more,
});
const message = (seq: number, role: string, text: string, more: object = {}) =>
  ({ seq, role, content: { text, ...more }, author: null }) as unknown as Message;

test("what waits is there until it is dropped, also where the browser keeps nothing", () => {
  put("ada", sent());
  put("ada", sent({ key: "other", session: "t" }));
  expect(waiting("ada", "s").map((one) => one.key)).toEqual(["k"]);
  put("ada", sent({ state: "failed", why: "no model" }));
  expect(waiting("ada", "s")[0]?.state).toBe("failed");
  drop("ada", "k");
  expect(waiting("ada", "s")).toEqual([]);
});

test("words are always kept; images as far as they fit", () => {
  const list = [sent({ images: ["12345"] }), sent({ key: "l", images: ["1234567"], text: "Long" })];
  expect(fitting(list, 10).map((one) => [one.text, one.images.length, one.lostImages])).toEqual([
    ["Hello", 1, undefined],
    ["Long", 0, 1],
  ]);
});

test("a message that the server has is found, and whether it was answered", () => {
  const before = [message(1, "user", "Hello"), message(2, "assistant", "Hi")];
  expect(placeOf(sent(), before)).toBeNull();
  const kept = [...before, message(3, "user", "Hello")];
  expect(placeOf(sent(), kept)).toEqual({ seq: 3, answered: false });
  const calling = message(4, "assistant", "", { tool_calls: [{ id: "1", function: { name: "x" } }] });
  expect(placeOf(sent(), [...kept, calling])).toEqual({ seq: 3, answered: false });
  expect(placeOf(sent(), [...kept, calling, message(5, "assistant", "Hi")])).toEqual({ seq: 3, answered: true });
  expect(placeOf(sent({ agents: ["a", "b"] }), [...kept, message(4, "assistant", "Hi")])?.answered).toBe(false);
});
