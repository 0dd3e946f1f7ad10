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

/** A word as it is compared: small letters, no accents, no English ending. */
function stem(word: string): string {
  const plain = word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const cut = plain.replace(/(?:ies|ing|ed|es|s|e)$/, "");
  return cut.length >= 3 ? cut : plain;
}

/** Where a text has words of a question: from and to, in order. */
export function places(text: string, question: string): [number, number][] {
  const words = question.match(WORD) ?? [];
  const stems = new Set(words.filter((word) => !STOP.has(word.toLowerCase())).map(stem));
  const pairs = words.filter((word) => NO_SPACES.test(word)).flatMap(pairsOf);
  const found: [number, number][] = [];
  for (const match of text.matchAll(WORD)) {
    if (stems.has(stem(match[0]))) found.push([match.index, match.index + match[0].length]);
    else if (NO_SPACES.test(match[0])) found.push(...within(match[0], match.index, pairs));
  }
  return found;
}

function pairsOf(word: string): string[] {
  const letters = [...word];
  return letters.length === 1 ? letters : letters.slice(1).map((letter, place) => (letters[place] ?? "") + letter);
}

function within(word: string, start: number, pairs: readonly string[]): [number, number][] {
  const has = new Array<boolean>(word.length).fill(false);
  for (const pair of pairs) {
    for (let at = word.indexOf(pair); at >= 0; at = word.indexOf(pair, at + 1)) has.fill(true, at, at + pair.length);
  }
  const found: [number, number][] = [];
  for (let at = 0; at < has.length; at++) {
    if (!has[at]) continue;
    let end = at;
    while (has[end]) end++;
    found.push([start + at, start + end]);
    at = end;
  }
  return found;
}

/** A text in pieces, marked or not; of a long one, only what is around the most of its marks. */
export function marked(text: string, question: string, most = Number.POSITIVE_INFINITY): Piece[] {
  const all = places(text, question);
  const [from, end] = text.length <= most ? [0, text.length] : best(text, all, most);
  const pieces: Piece[] = from > 0 ? [{ text: "… ", marked: false }] : [];
  let done = from;
  for (const [start, stop] of all) {
    if (start < from || stop > end) continue;
    if (start > done) pieces.push({ text: text.slice(done, start), marked: false });
    pieces.push({ text: text.slice(start, stop), marked: true });
    done = stop;
  }
  if (done < end) pieces.push({ text: text.slice(done, end), marked: false });
  if (end < text.length) pieces.push({ text: " …", marked: false });
  return pieces;
}

/** The stretch of a text that has the most marks, cut between words where that is near. */
function best(text: string, all: readonly [number, number][], most: number): [number, number] {
  let [first, hits] = [0, 0];
  for (const [start] of all) {
    const inside = all.filter(([one, stop]) => one >= start && stop <= start + most * 0.8).length;
    if (inside > hits) [first, hits] = [start, inside];
  }
  let from = Math.max(0, Math.min(first - Math.floor(most * 0.15), text.length - most));
  const space = from > 0 ? text.slice(from, from + 30).search(/\s/) : -1;
  if (space >= 0) from += space + 1;
  const last = Math.min(text.length, from + most);
  const cut = last < text.length ? text.lastIndexOf(" ", last) : -1;
  return [from, cut > last - 30 ? cut : last];
}
