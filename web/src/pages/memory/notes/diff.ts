// The common lines of two texts; the basis for merging and for marking changes.

export type Pair = [number, number];

const MAX_CELLS = 9_000_000;

/** The lines of a text; joined with line breaks they give the text. An empty text has none. */
export const lines = (text: string): string[] => (text === "" ? [] : text.split("\n"));

/** The longest common subsequence of lines, as pairs of indexes. */
export function common(a: readonly string[], b: readonly string[]): Pair[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const pairs: Pair[] = Array.from({ length: start }, (_, index) => [index, index]);
  pairs.push(...inside(a.slice(start, a.length - end), b.slice(start, b.length - end), start));
  for (let fromEnd = end; fromEnd > 0; fromEnd--) pairs.push([a.length - fromEnd, b.length - fromEnd]);
  return pairs;
}

/** The same for the middle between a common start and end; a very large middle counts as changed. */
function inside(a: readonly string[], b: readonly string[], offset: number): Pair[] {
  if (!a.length || !b.length || a.length * b.length > MAX_CELLS) return [];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  const lengthAt = (i: number, j: number) => longest[i * width + j] as number;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] =
        a[i] === b[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
    }
  }
  const pairs: Pair[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) pairs.push([offset + i++, offset + j++]);
    else if (lengthAt(i + 1, j) >= lengthAt(i, j + 1)) i++;
    else j++;
  }
  return pairs;
}

export type Difference = { changed: Set<number>; added: number; removed: number };

/** The difference between two texts: the changed lines (from 1), and the numbers of added and removed lines. */
export function difference(before: string, after: string): Difference {
  const old = lines(before);
  const now = lines(after);
  const commonLines = common(old, now);
  const same = new Set(commonLines.map(([, index]) => index));
  const changed = new Set(now.flatMap((line, index) => (same.has(index) || !line.trim() ? [] : [index + 1])));
  return { changed, added: now.length - commonLines.length, removed: old.length - commonLines.length };
}

export type Line = { sign: "+" | "-" | " " | "@"; text: string };

/** The lines of a unified diff, without its header and its "no newline" remarks. */
export function unified(text: string): Line[] {
  return text
    .split("\n")
    .slice(2)
    .filter((line, index, allLines) => !line.startsWith("\\") && (line !== "" || index < allLines.length - 1))
    .map((line) => {
      if (line.startsWith("@@")) return { sign: "@", text: line };
      return { sign: (line[0] ?? " ") as Line["sign"], text: line.slice(1) };
    });
}
