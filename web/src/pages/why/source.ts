// The source of a report item: a kind and an id (`source` in packages/memorist/src/memorist/context/recall.py, and the sections).

export type Source =
  | { kind: "message"; session: string | null; seq: number }
  | { kind: "messages"; first: number; last: number }
  | { kind: "entry"; id: string }
  | { kind: "fact"; id: string }
  | { kind: "ref"; key: string }
  | { kind: "state"; owner: string; key: string }
  | { kind: "notes"; version: number; part: number }
  | { kind: "section"; nth: number }
  | { kind: "summary"; number: number }
  | { kind: "agent"; name: string }
  | { kind: "passage"; document: string; seq: number }
  | { kind: "other"; text: string };

export function sourceOf(text: string): Source {
  const space = text.indexOf(" ");
  const [kind, id] = space < 0 ? [text, ""] : [text.slice(0, space), text.slice(space + 1)];
  const end = id.lastIndexOf(" ");
  const [front, back] = [id.slice(0, Math.max(end, 0)), id.slice(end + 1)];
  const range = /^(\d+)–(\d+)$/.exec(id);
  if (kind === "messages" && range) return { kind: "messages", first: Number(range[1]), last: Number(range[2]) };
  if (kind === "messages" && /^\d+$/.test(back)) return { kind: "message", session: front || null, seq: Number(back) };
  if (kind === "documents" && front && /^\d+$/.test(back)) {
    return { kind: "passage", document: front, seq: Number(back) };
  }
  if (kind === "entries" && id) return { kind: "entry", id };
  if (kind === "facts" && id) return { kind: "fact", id };
  if (kind === "refs" && id) return { kind: "ref", key: id };
  if (kind === "agents" && id) return { kind: "agent", name: id };
  if (kind === "summaries" && /^\d+$/.test(id)) return { kind: "summary", number: Number(id) };
  if (kind === "state" && id.includes(" ")) {
    const cut = id.indexOf(" ");
    return { kind: "state", owner: id.slice(0, cut), key: id.slice(cut + 1) };
  }
  const part = /^v(\d+)\.(\d+)$/.exec(id);
  if (kind === "notes" && part) return { kind: "notes", version: Number(part[1]), part: Number(part[2]) };
  const section = /^notes, section (\d+)$/.exec(text);
  if (section) return { kind: "section", nth: Number(section[1]) };
  return { kind: "other", text };
}

const OTHERS: Record<string, string> = {
  new: "The new message",
  fragment: "How to open a reference",
  "headings and fences": "Headings and fences",
  "refs, still older": "Older references",
  vectors: "Search by meaning",
};

/** The display name of a source. */
export function called(source: Source, titles: Record<string, string> = {}): string {
  switch (source.kind) {
    case "message":
      if (!source.session) return `Message ${source.seq}`;
      return `Message ${source.seq} of ${titles[source.session] ? `“${titles[source.session]}”` : "another conversation"}`;
    case "messages":
      return source.first === source.last ? `Message ${source.first}` : `Messages ${source.first} to ${source.last}`;
    case "entry":
      return "Entry";
    case "fact":
      return "Fact";
    case "ref":
      return source.key;
    case "state":
      return source.key;
    case "notes":
      return `Notes, version ${source.version}, part ${source.part}`;
    case "section":
      return `Notes, section ${source.nth}`;
    case "summary":
      return `Summary ${source.number}`;
    case "agent":
      return `The prompt of ${source.name}`;
    case "passage":
      return `Passage ${source.seq} of a document`;
    case "other": {
      const facts = /^facts, (\d+) in all$/.exec(source.text)?.[1];
      return facts ? `${facts} facts in all` : (OTHERS[source.text] ?? source.text);
    }
  }
}

/** The state area of an owner that a report names. */
export const areaOf = (owner: string, session: string) => (owner === "session" ? `session:${session}` : owner);
