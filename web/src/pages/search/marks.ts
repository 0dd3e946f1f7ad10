// The words of a text to mark as matches. The server's search knows more (meaning, irregular forms); the marks only show
// where to look.

const WORD = /[\p{L}\p{N}]+/gu;
const NO_SPACES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const STOP = new Set(
  "a an and are at be by did do does for from had has have how i in is it its me my of on or s she he that the their they this to us was we were what when where which who why will with you your".split(
    " ",
  ),
);
export type Piece = { text: string; marked: boolean };

/** A normalized word: lower case, no accents, no English ending. */
function stem(word: string): string {
  const plain = word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const cut = plain.replace(/(?:ies|ing|ed|es|s|e)$/, "");
  return cut.length >= 3 ? cut : plain;
}

/** The ranges of a text that match words of the query, in order. */
export function wordRanges(text: string, question: string): [number, number][] {
  const words = question.match(WORD) ?? [];
  const stems = new Set(words.filter((word) => !STOP.has(word.toLowerCase())).map(stem));
  const pairs = words.filter((word) => NO_SPACES.test(word)).flatMap(pairsOf);
  const ranges: [number, number][] = [];
  for (const match of text.matchAll(WORD)) {
    if (stems.has(stem(match[0]))) ranges.push([match.index, match.index + match[0].length]);
    else if (NO_SPACES.test(match[0])) ranges.push(...pairRanges(match[0], match.index, pairs));
  }
  return ranges;
}

function pairsOf(word: string): string[] {
  const letters = [...word];
  return letters.length === 1 ? letters : letters.slice(1).map((letter, index) => (letters[index] ?? "") + letter);
}

function pairRanges(word: string, start: number, pairs: readonly string[]): [number, number][] {
  const has = new Array<boolean>(word.length).fill(false);
  for (const pair of pairs) {
    for (let index = word.indexOf(pair); index >= 0; index = word.indexOf(pair, index + 1))
      has.fill(true, index, index + pair.length);
  }
  const ranges: [number, number][] = [];
  for (let index = 0; index < has.length; index++) {
    if (!has[index]) continue;
    let end = index;
    while (has[end]) end++;
    ranges.push([start + index, start + end]);
    index = end;
  }
  return ranges;
}

/** A text in marked and unmarked pieces; of a long text, only the part with the most marks. */
export function marked(text: string, question: string, limit = Number.POSITIVE_INFINITY): Piece[] {
  const ranges = wordRanges(text, question);
  const [from, end] = text.length <= limit ? [0, text.length] : best(text, ranges, limit);
  const pieces: Piece[] = from > 0 ? [{ text: "… ", marked: false }] : [];
  let done = from;
  for (const [start, stop] of ranges) {
    if (start < from || stop > end) continue;
    if (start > done) pieces.push({ text: text.slice(done, start), marked: false });
    pieces.push({ text: text.slice(start, stop), marked: true });
    done = stop;
  }
  if (done < end) pieces.push({ text: text.slice(done, end), marked: false });
  if (end < text.length) pieces.push({ text: " …", marked: false });
  return pieces;
}

/** The part of a text with the most marks, cut between words where possible. */
function best(text: string, ranges: readonly [number, number][], limit: number): [number, number] {
  let [first, hits] = [0, 0];
  for (const [start] of ranges) {
    const inside = ranges.filter(([rangeStart, stop]) => rangeStart >= start && stop <= start + limit * 0.8).length;
    if (inside > hits) [first, hits] = [start, inside];
  }
  let from = Math.max(0, Math.min(first - Math.floor(limit * 0.15), text.length - limit));
  const space = from > 0 ? text.slice(from, from + 30).search(/\s/) : -1;
  if (space >= 0) from += space + 1;
  const last = Math.min(text.length, from + limit);
  const cut = last < text.length ? text.lastIndexOf(" ", last) : -1;
  return [from, cut > last - 30 ? cut : last];
}
