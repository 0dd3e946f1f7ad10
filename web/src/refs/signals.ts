// Descriptions of the search signals; the names are those of packages/memorist/src/memorist/search/features.py.

const MEANS: Record<string, string> = {
  words: "It contains words of the question; rare words count more.",
  "words of the best": "How well its words match, compared with the best match.",
  coverage: "The share of the question’s words that it contains.",
  "rarest word": "It contains the rarest word of the question.",
  length: "Longer messages rank lower.",
  "length of an answer": "Longer answers rank lower.",
  asks: "It is a question itself.",
  "asks the same": "It only repeats the question.",
  quoted: "It contains a quoted phrase word for word.",
  meaning: "It is close to the question in meaning.",
  nearest: "Its distance in meaning from the closest match.",
  speaker: "The question asks about the speaker of this message.",
  answer: "An agent or a tool wrote it.",
  "answer asked for": "The question asks for an earlier answer.",
  time: "It is from the time that the question asks about.",
  recent: "The question asks for the latest.",
  first: "The question asks for the first.",
  before: "The message before it matches, too.",
  after: "The message after it matches, too.",
  "second before": "The message two places before it matches, too.",
  "second after": "The message two places after it matches, too.",
  beside: "A message right next to it matches.",
  "near by": "A message nearby matches.",
  answers: "It follows a question that matches.",
  replies: "It replies to a person’s question that matches.",
  "words around": "It and its neighbours contain words of the question.",
  "added around": "Its neighbours contain further words of the question.",
  window: "The turns around it are about the question.",
  "meaning around": "Its neighbours are close in meaning.",
  "session's words": "Its conversation contains words of the question.",
  "session by words": "Its conversation is about the question, judged by its words.",
  "added by session": "The rest of its conversation contains further words of the question.",
  session: "Its conversation matches as a whole.",
  "session's best": "The best message of its conversation matches.",
  "session's three": "The three best messages of its conversation match.",
  "session's meaning": "Its conversation is close in meaning.",
};

const LABELS: Record<string, string> = {
  "words of the best": "words, relative to the best match",
  "length of an answer": "length of the answer",
  asks: "is a question",
  "asks the same": "repeats the question",
  nearest: "meaning, relative to the best match",
  answer: "written by an agent",
  before: "message before",
  after: "message after",
  "second before": "two messages before",
  "second after": "two messages after",
  beside: "next message",
  "near by": "message nearby",
  answers: "follows a question",
  replies: "reply to a question",
  "words around": "words nearby",
  "added around": "further words nearby",
  window: "messages around it",
  "meaning around": "meaning nearby",
  "session's words": "words of the conversation",
  "session by words": "conversation by words",
  "added by session": "further words of the conversation",
  session: "conversation",
  "session's best": "best of the conversation",
  "session's three": "best three of the conversation",
  "session's meaning": "meaning of the conversation",
};
const LEGS: Record<string, string> = { words: "words", vectors: "meaning" };

/** The display name of a retriever. */
export const leg = (name: string) => LEGS[name] ?? name;
/** The display name of a signal. */
export const label = (name: string) => LABELS[name] ?? name;
/** The description of a signal. */
export const meaning = (name: string) => MEANS[name] ?? "A signal of the search.";
/** The contribution of a signal to the rank, relative to the average: +0.66. */
export const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** The signals with the largest contributions, strongest first. */
export function strongest(why: Record<string, number>, limit = 3): [string, number][] {
  return Object.entries(why)
    .filter(([, value]) => Math.abs(value) >= 0.005)
    .sort((first, second) => Math.abs(second[1]) - Math.abs(first[1]))
    .slice(0, limit);
}

export const NO_KEYWORD_MATCH = "Nothing has these words in it. These come nearest by meaning.";

/** True if there are hits, but none by keyword. */
export const noKeywordMatch = (hits: readonly { legs: string[] }[]) =>
  hits.length > 0 && hits.every((hit) => !hit.legs.includes("words"));
