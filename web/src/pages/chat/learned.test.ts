import { expect, test } from "vitest";
import type { Fact, Message } from "../../api/index";
import { byMessage, learnedBefore } from "./learned";

const fact = (id: string, learned_at: string, ...evidence: [string, number][]) =>
  ({ id, learned_at, evidence: evidence.map(([session, seq]) => ({ session, seq })) }) as Fact;
const talk = (...roles: string[]) => ({
  last: roles.length,
  messages: new Map(
    roles.map((role, index) => [index + 1, { role, seq: index + 1, created_at: `2026-05-0${index + 1}` } as Message]),
  ),
});
const ids = (facts: readonly Fact[]) => facts.map((item) => item.id);

test("a fact belongs to the first message of the conversation that says so", () => {
  const learned = byMessage(
    [fact("a", "2026-05-02", ["s", 5], ["s", 1]), fact("b", "2026-05-02", ["other", 1]), fact("c", "2026-05-02")],
    "s",
  );
  expect([...learned].map(([seq, facts]) => [seq, ids(facts)])).toEqual([[1, ["a"]]]);
});

test("facts are shown below the last answer to their message", () => {
  const learned = byMessage([fact("a", "2026-05-09", ["s", 1]), fact("b", "2026-05-09", ["s", 2])], "s");
  const said = talk("user", "user", "assistant", "tool", "assistant", "user", "assistant");
  expect(ids(learnedBefore(said, 5, learned))).toEqual(["a", "b"]);
  expect(learnedBefore(said, 3, learned)).toEqual([]); // another answer follows
  expect(learnedBefore(said, 7, learned)).toEqual([]);
});

test("a fact that was known before the message was not learned from it", () => {
  const learned = byMessage([fact("a", "2026-05-02", ["s", 3]), fact("b", "2026-05-04", ["s", 3])], "s");
  expect(ids(learnedBefore(talk("user", "assistant", "user", "assistant"), 4, learned))).toEqual(["b"]);
});
