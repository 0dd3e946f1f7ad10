// Parse a file of entries before anything is sent: new entries, existing entries, and errors by line.
import { characters, MAX_CHARACTERS } from "./editing";

export type Fields = Record<string, unknown>;
/** One entry of a file, or the reason why it is left out. */
export type ParsedEntry = { position: string; entry: Fields; error?: string; same?: boolean };
type StoredEntry = { id: string; kind: string; content: string };

const FIELDS =
  "id agent kind board content user source version created_at updated_at expires_at expired review signs".split(" ");
const REVIEWS = ["accepted", "pending", "refused"];
const DAY = 86_400_000;

/** The entries of a file: a JSON list, an object that contains such a list, or one JSON object per line. */
export function read(text: string, now = Date.now()): ParsedEntry[] {
  const plain = text.replace(/^\uFEFF/, "").trim();
  if (!plain) return [{ position: "the file", entry: {}, error: "is empty" }];
  const parsedText = parseJson(plain);
  const list = Array.isArray(parsedText) ? parsedText : findList(parsedText);
  if (list) return list.map((item, index) => parseEntry(`entry ${index + 1}`, item, now));
  if (plain.startsWith("[")) return [{ position: "the file", entry: {}, error: `is not JSON: ${parseError(plain)}` }];
  return text.split(/\r?\n/).flatMap((line, index) => {
    if (!line.replace(/^\uFEFF/, "").trim()) return [];
    const value = parseJson(line.replace(/^\uFEFF/, ""));
    const position = `line ${index + 1}`;
    return [
      value === undefined
        ? { position, entry: {}, error: `is not JSON: ${parseError(line)}` }
        : parseEntry(position, value, now),
    ];
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function parseError(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return (error as Error).message.slice(0, 120);
  }
}

function findList(value: unknown): unknown[] | undefined {
  if (typeof value !== "object" || value === null || "content" in value) return undefined;
  return Object.values(value).find(Array.isArray);
}

function parseEntry(position: string, value: unknown, now: number): ParsedEntry {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { position, entry: {}, error: "is not a JSON object" };
  const entry = value as Fields;
  return { position, entry, error: validate(entry, now) };
}

/** Problems that the server would reject, found before sending. */
function validate(entry: Fields, now: number): string | undefined {
  const unknown = Object.keys(entry).find((name) => !FIELDS.includes(name));
  if (unknown) return `has an unknown field: ${unknown}`;
  const { kind = "journal", content, id, created_at, review = "accepted" } = entry;
  if (kind === "whiteboard") return "is a whiteboard entry; only journal and core entries can be imported";
  if (kind !== "journal" && kind !== "core") return `has the kind ${JSON.stringify(kind)}, not journal or core`;
  if (typeof content !== "string") return "has no content";
  const length = characters(content);
  if (!length) return "is blank";
  if (length > MAX_CHARACTERS) return `has ${length.toLocaleString("en")} characters; at most 10,000`;
  if (id !== undefined && (typeof id !== "string" || !id)) return "has an id that is not text";
  if (!REVIEWS.includes(review as string)) return `has the unknown review status ${JSON.stringify(review)}`;
  if (created_at !== undefined && created_at !== null) {
    const createdAt = typeof created_at === "string" ? Date.parse(created_at) : Number.NaN;
    if (Number.isNaN(createdAt)) return "has a created_at that is not a time";
    if (createdAt > now + DAY) return "has a created_at in the future";
  }
  return undefined;
}

/** Mark entries that already exist or are repeated in the file, by id or by content. */
export function markExisting(entries: ParsedEntry[], present: readonly StoredEntry[]): ParsedEntry[] {
  const byId = new Map(present.map((entry) => [entry.id, entry]));
  const seen = new Set(present.map((entry) => identityOf(entry.kind, entry.content)));
  return entries.map((item) => {
    if (item.error) return item;
    const { kind = "journal", content, id } = item.entry as { kind?: string; content: string; id?: string };
    const identity = identityOf(kind, content);
    const stored = id === undefined ? undefined : byId.get(id);
    if (stored && identityOf(stored.kind, stored.content) !== identity)
      return { ...item, error: "has the id of an existing entry with other content" };
    if (stored || seen.has(identity)) return { ...item, same: true };
    seen.add(identity);
    if (id !== undefined) byId.set(id, { id, kind, content });
    return item;
  });
}

const identityOf = (kind: string, content: string) => `${kind}\n${content.trim()}`;

/** Split entries into batches for one request each, limited in number and size. */
export function batches(entries: readonly ParsedEntry[], limit = 200, bytes = 1_000_000): ParsedEntry[][] {
  const result: ParsedEntry[][] = [];
  let size = bytes;
  for (const item of entries) {
    const length = JSON.stringify(item.entry).length * 3;
    const last = result.at(-1);
    if (last && last.length < limit && size + length <= bytes) {
      last.push(item);
      size += length;
    } else {
      result.push([item]);
      size = length;
    }
  }
  return result;
}

/** The index of the entry that the field of an error names. */
export function failedIndex(field: string | null): number | null {
  const match = /^entries\[(\d+)\]/.exec(field ?? "");
  return match ? Number(match[1]) : null;
}
