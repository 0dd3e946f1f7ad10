// Why an item is in a context, or not. What was recalled says its score, the legs that found it and the signals that told
// most, always in one form (`reason` in src/retain/context/recall.py); older reports have no legs.

import { leg } from "../../refs/signals";

export type Reason = {
  words: string;
  score: number | null;
  legs: string[];
  beside: boolean;
  signals: [string, number][];
};
const RECALLED = /^recalled at (\d(?:\.\d+)?)(?: by ([\w ]+?)| (beside another))?(?:: (.+?))?(, shortened to fit)?$/;

export function reasonOf(text: string): Reason {
  const found = RECALLED.exec(text);
  if (!found) return { words: text, score: null, legs: [], beside: false, signals: [] };
  const [, score, legs, beside, signals, shortened] = found;
  const by = legs ? legs.split(" and ") : [];
  return {
    words: `${beside ?? (by.length ? `by ${by.map(leg).join(" and ")}` : "found by search")}${shortened ?? ""}`,
    score: Number(score),
    legs: by,
    beside: beside !== undefined,
    signals: (signals ?? "").split(", ").flatMap((signal): [string, number][] => {
      const part = /^(.+) (-?\d+(?:\.\d+)?)$/.exec(signal);
      return part ? [[part[1] as string, Number(part[2])]] : [];
    }),
  };
}
