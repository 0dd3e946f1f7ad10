// Parse the reason why an item is in a context. A recalled item names its score, retrievers and strongest signals in a
// fixed format (`reason` in packages/memorist/src/memorist/context/recall.py); older reports have no retrievers.

import { leg } from "../../refs/signals";

export type Reason = {
  words: string;
  score: number | null;
  legs: string[];
  isNeighbour: boolean;
  signals: [string, number][];
};
const RECALLED = /^recalled at (\d(?:\.\d+)?)(?: by ([\w ]+?)| (beside another))?(?:: (.+?))?(, shortened to fit)?$/;

export function reasonOf(text: string): Reason {
  const match = RECALLED.exec(text);
  if (!match) return { words: text, score: null, legs: [], isNeighbour: false, signals: [] };
  const [, score, legs, isNeighbour, signals, shortened] = match;
  const by = legs ? legs.split(" and ") : [];
  return {
    words: `${isNeighbour ?? (by.length ? `by ${by.map(leg).join(" and ")}` : "found by search")}${shortened ?? ""}`,
    score: Number(score),
    legs: by,
    isNeighbour: isNeighbour !== undefined,
    signals: (signals ?? "").split(", ").flatMap((signal): [string, number][] => {
      const part = /^(.+) (-?\d+(?:\.\d+)?)$/.exec(signal);
      return part ? [[part[1] as string, Number(part[2])]] : [];
    }),
  };
}
