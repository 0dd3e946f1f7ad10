// The facts that were learned from the messages of a conversation. Facts are learned in the background, so they are
// requested again shortly after an answer.
import { useEffect, useMemo, useRef, useState } from "react";
import { get } from "../../api/client";
import type { Fact } from "../../api/index";
import { useLoad } from "../../api/load";
import type { Talk } from "./talk";

const CHECK_SECONDS = [2, 6, 15, 45]; // after an answer; a model reads a conversation after a pause of 30 seconds
const NEWEST = 50;
const ANSWER_DISTANCE = 40; // the maximum distance between a message and the last answer to it

/** Facts by the number of the first message in this conversation that says so. */
export type LearnedFrom = ReadonlyMap<number, readonly Fact[]>;

export function useLearned(talk: Talk): LearnedFrom {
  const [checks, setChecks] = useState(0);
  const { user, id, last, busy } = talk;
  const seen = useRef(last);
  useEffect(() => {
    if (busy || last === seen.current) return;
    seen.current = last;
    const timers = CHECK_SECONDS.map((seconds) => setTimeout(() => setChecks((done) => done + 1), seconds * 1000));
    return () => timers.forEach(clearTimeout);
  }, [busy, last]);
  const newest = useLoad((signal) => get("/api/facts", { query: { user, limit: NEWEST }, signal }), [talk, checks]);
  const facts = newest.data?.data;
  return useMemo(() => byMessage(facts ?? [], id), [facts, id]);
}

/** Facts by the first message of a session that they come from. */
export function byMessage(facts: readonly Fact[], session: string): LearnedFrom {
  const result = new Map<number, Fact[]>();
  for (const fact of facts) {
    const seqs = fact.evidence.filter((message) => message.session === session).map((message) => message.seq);
    if (!seqs.length) continue;
    const first = Math.min(...seqs);
    result.set(first, [...(result.get(first) ?? []), fact]);
  }
  return result;
}

/** The facts to show below an answer: those learned from the messages that it answers; none below an earlier answer. */
export function learnedBefore(talk: Pick<Talk, "messages" | "last">, seq: number, learned: LearnedFrom): Fact[] {
  if (!learned.size) return [];
  const next = talk.messages.get(seq + 1);
  const isLastAnswer = next ? next.role === "user" : seq === talk.last;
  if (!isLastAnswer) return [];
  let asked = seq - 1;
  while (asked > seq - ANSWER_DISTANCE && talk.messages.get(asked)?.role !== "user") asked--;
  const facts: Fact[] = [];
  for (let message = talk.messages.get(asked); message?.role === "user"; message = talk.messages.get(--asked)) {
    const saidAt = Date.parse(message.created_at);
    // A fact that was known before is only supported by this message.
    facts.unshift(...(learned.get(asked) ?? []).filter((fact) => Date.parse(fact.learned_at) >= saidAt));
  }
  return facts;
}
