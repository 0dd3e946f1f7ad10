// Parse a file of entries before anything is sent: new entries, existing entries, and errors by line.
import { characters, MOST_CHARACTERS } from "./editing";

export type Fields = Record<string, unknown>;
/** One entry of a file: what it is, or why it is left out. */
export type Given = { where: string; entry: Fields; wrong?: string; same?: boolean };
type Present = { id: string; kind: string; content: string };

const FIELDS =
  "id agent kind board content user source version created_at updated_at expires_at expired review signs".split(" ");
const REVIEWS = ["accepted", "pending", "refused"];
const DAY = 86_400_000;

/** The entries of a file: a JSON list, an object with such a list in it, or one JSON object a line. */
export function read(text: string, now = Date.now()): Given[] {
  const plain = text.replace(/^\uFEFF/, "").trim();
  if (!plain) return [{ where: "the file", entry: {}, wrong: "is empty" }];
  const whole = parsed(plain);
  const list = Array.isArray(whole) ? whole : listIn(whole);
  if (list) return list.map((one, place) => checked(`entry ${place + 1}`, one, now));
  if (plain.startsWith("[")) return [{ where: "the file", entry: {}, wrong: `is not JSON: ${problem(plain)}` }];
  return text.split(/\r?\n/).flatMap((line, place) => {
    if (!line.replace(/^\uFEFF/, "").trim()) return [];
    const one = parsed(line.replace(/^\uFEFF/, ""));
    const where = `line ${place + 1}`;
    return [
      one === undefined ? { where, entry: {}, wrong: `is not JSON: ${problem(line)}` } : checked(where, one, now),
    ];
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function problem(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return (error as Error).message.slice(0, 120);
  }
}

function listIn(whole: unknown): unknown[] | undefined {
  if (typeof whole !== "object" || whole === null || "content" in whole) return undefined;
  return Object.values(whole).find(Array.isArray);
}

function checked(where: string, given: unknown, now: number): Given {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return { where, entry: {}, wrong: "is no JSON object" };
  const entry = given as Fields;
  return { where, entry, wrong: wrongWith(entry, now) };
}

/** Problems that the server would reject, found before sending. */
function wrongWith(entry: Fields, now: number): string | undefined {
  const unknown = Object.keys(entry).find((name) => !FIELDS.includes(name));
  if (unknown) return `has a field that no entry has: ${unknown}`;
  const { kind = "journal", content, id, created_at, review = "accepted" } = entry;
  if (kind === "whiteboard") return "is a line of a whiteboard; only journal and core are brought in here";
  if (kind !== "journal" && kind !== "core") return `is of the kind ${JSON.stringify(kind)}, not journal or core`;
  if (typeof content !== "string") return "has no content";
  const length = characters(content);
  if (!length) return "is blank";
  if (length > MOST_CHARACTERS) return `has ${length.toLocaleString("en")} characters; at most 10,000`;
  if (id !== undefined && (typeof id !== "string" || !id)) return "has an id that is no text";
  if (!REVIEWS.includes(review as string)) return `has the review ${JSON.stringify(review)}`;
  if (created_at !== undefined && created_at !== null) {
    const at = typeof created_at === "string" ? Date.parse(created_at) : Number.NaN;
    if (Number.isNaN(at)) return "has a created_at that is no moment";
    if (at > now + DAY) return "was made in the future";
  }
  return undefined;
}

/** Mark what is here already, or twice in the file: by its id, or by saying the same. */
export function compared(given: Given[], present: readonly Present[]): Given[] {
  const byId = new Map(present.map((entry) => [entry.id, entry]));
  const said = new Set(present.map((entry) => sayingOf(entry.kind, entry.content)));
  return given.map((one) => {
    if (one.wrong) return one;
    const { kind = "journal", content, id } = one.entry as { kind?: string; content: string; id?: string };
    const saying = sayingOf(kind, content);
    const there = id === undefined ? undefined : byId.get(id);
    if (there && sayingOf(there.kind, there.content) !== saying)
      return { ...one, wrong: "has the id of an entry that says something else here" };
    if (there || said.has(saying)) return { ...one, same: true };
    said.add(saying);
    if (id !== undefined) byId.set(id, { id, kind, content });
    return one;
  });
}

const sayingOf = (kind: string, content: string) => `${kind}\n${content.trim()}`;

/** The entries of one request, limited in number and size. */
export function batches(given: readonly Given[], most = 200, bytes = 1_000_000): Given[][] {
  const made: Given[][] = [];
  let size = bytes;
  for (const one of given) {
    const length = JSON.stringify(one.entry).length * 3;
    const last = made.at(-1);
    if (last && last.length < most && size + length <= bytes) {
      last.push(one);
      size += length;
    } else {
      made.push([one]);
      size = length;
    }
  }
  return made;
}

/** Which entry of a batch a field of an error means. */
export function meant(field: string | null): number | null {
  const found = /^entries\[(\d+)\]/.exec(field ?? "");
  return found ? Number(found[1]) : null;
}
