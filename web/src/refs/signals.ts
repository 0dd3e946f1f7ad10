// Descriptions of the search signals; the names are those of src/retain/search/features.py.

const MEANS: Record<string, string> = {
  words: "It has words of the question; rare ones count more.",
  "words of the best": "How much of the best match’s words it has.",
  coverage: "How many of the question’s words it has.",
  "rarest word": "It has the rarest word of the question.",
  length: "How long it is.",
  "length of an answer": "How long the answer is.",
  asks: "It asks something itself.",
  quoted: "It has a quoted phrase word by word.",
  meaning: "It is near to the question in meaning.",
  nearest: "How far it is from the nearest in meaning.",
  speaker: "It was said by whom the question asks about.",
  answer: "It was an answer, not a question.",
  "answer asked for": "The question asks for what was answered.",
  time: "It is from the time that the question asks about.",
  recent: "The question asks for the latest.",
  first: "The question asks for the first.",
  before: "What was said just before it fits too.",
  after: "What was said just after it fits too.",
  "second before": "What was said two turns before fits too.",
  "second after": "What was said two turns after fits too.",
  beside: "What stands right beside it fits.",
  "near by": "What stands near by fits.",
  answers: "It follows a question that fits.",
  "words around": "It and what stands around it have words of the question.",
  "added around": "What stands around it adds words of the question.",
  window: "The turns around it are about the question.",
  "meaning around": "What stands around it is near in meaning.",
  "session's words": "Its conversation has words of the question.",
  "session by words": "Its conversation is about the question, by its words.",
  "added by session": "The rest of its conversation adds words of the question.",
  session: "Its conversation as a whole fits.",
  "session's best": "The best of its conversation fits.",
  "session's three": "The best three of its conversation fit.",
  "session's meaning": "Its conversation is near in meaning.",
};

const LEGS: Record<string, string> = { words: "words", vectors: "meaning" };

/** The display name of a retriever. */
export const leg = (name: string) => LEGS[name] ?? name;
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
