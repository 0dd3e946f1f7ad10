// The common lines of two texts; the basis for merging and for marking changes.

export type Pair = [number, number];

const MOST = 9_000_000;

/** The lines of a text, so that joining them with line breaks gives it back; an empty text has none. */
export const lines = (text: string): string[] => (text === "" ? [] : text.split("\n"));

/** The longest run of lines, not always adjacent, that both have: pairs of places, in order. */
export function common(a: readonly string[], b: readonly string[]): Pair[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const found: Pair[] = Array.from({ length: start }, (_, place) => [place, place]);
  found.push(...inside(a.slice(start, a.length - end), b.slice(start, b.length - end), start));
  for (let left = end; left > 0; left--) found.push([a.length - left, b.length - left]);
  return found;
}

/** The same for what is left between a beginning and an end that are equal. Where it is huge, all of it counts as changed. */
function inside(a: readonly string[], b: readonly string[], offset: number): Pair[] {
  if (!a.length || !b.length || a.length * b.length > MOST) return [];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number) => longest[i * width + j] as number;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: Pair[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) found.push([offset + i++, offset + j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return found;
}

export type Difference = { changed: Set<number>; added: number; removed: number };

/** What a text has that the one before had not: which of its lines (from 1), and how many came and went. */
export function difference(before: string, after: string): Difference {
  const old = lines(before);
  const now = lines(after);
  const kept = common(old, now);
  const same = new Set(kept.map(([, place]) => place));
  const changed = new Set(now.flatMap((line, place) => (same.has(place) || !line.trim() ? [] : [place + 1])));
  return { changed, added: now.length - kept.length, removed: old.length - kept.length };
}

export type Line = { sign: "+" | "-" | " " | "@"; text: string };

/** The lines of a unified diff, without the names above it; "no newline" remarks say nothing to a reader. */
export function unified(text: string): Line[] {
  return text
    .split("\n")
    .slice(2)
    .filter((line, place, all) => !line.startsWith("\\") && (line !== "" || place < all.length - 1))
    .map((line) => {
      if (line.startsWith("@@")) return { sign: "@", text: line };
      return { sign: (line[0] ?? " ") as Line["sign"], text: line.slice(1) };
    });
}
