// The current text of an item in a stored report; reports hold no text. Changed items are marked as changed, and removed
// items have no text.
import { get, Problem } from "../../api/client";
import type { Message, Report } from "../../api/index";
import { conversationName } from "../../app/conversation";
import { areaOf, type Source, sourceOf } from "./source";

export type Where = { user: string; agent: string; session: string; at: string };
export type Looked = { text: string; changed?: string };

/** What a message says in words. */
export function saidIn(content: Message["content"]): string {
  const parts = Array.isArray(content.parts) ? content.parts : [];
  const texts = [content.text, ...parts.map((part) => (part as Record<string, unknown> | null)?.text)];
  const said = texts.filter((text): text is string => typeof text === "string" && text !== "");
  return [...new Set(said)].join("\n") || JSON.stringify(content, null, 2);
}

/** The text of a source; null where it is gone. */
export async function lookUp(source: Source, where: Where, signal: AbortSignal): Promise<Looked | null> {
  try {
    return await found(source, where, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Whether a moment of the server is after another, to its microsecond: a Date has milliseconds. */
export function isLater(at: string, than: string): boolean {
  const apart = Date.parse(at) - Date.parse(than);
  return apart > 0 || (apart === 0 && at.replace("Z", "") > than.replace("Z", ""));
}

async function found(source: Source, where: Where, signal: AbortSignal): Promise<Looked | null> {
  const query = { user: where.user, agent: where.agent };
  const since = (at: string) => (isLater(at, where.at) ? "Changed since then." : undefined);
  switch (source.kind) {
    case "message": {
      const path = { session: source.session ?? where.session, seq: source.seq };
      const message = await get("/api/messages/{session}/{seq}", { path, query: { user: where.user }, signal });
      return { text: saidIn(message.content) };
    }
    case "entry": {
      const entry = await get("/api/entries/{id}", { path: { id: source.id }, query, signal });
      return { text: entry.content, changed: since(entry.updated_at) ?? (entry.expired ? "Expired." : undefined) };
    }
    case "ref": {
      const ref = await get("/api/refs/{key}/info", { path: { key: source.key }, query: { user: where.user }, signal });
      return { text: ref.summary, changed: since(ref.updated_at) };
    }
    case "agent": {
      const agent = await get("/api/agents/{name}", { path: { name: source.name }, signal });
      return { text: agent.prompt || `You are ${agent.name}.`, changed: since(agent.updated_at) };
    }
    case "state": {
      const area = areaOf(source.owner, where.session);
      const item = await get("/api/state/{key}", { path: { key: source.key }, query: { ...query, area }, signal });
      const text = typeof item.value === "string" ? item.value : JSON.stringify(item.value, null, 2);
      return { text, changed: since(item.updated_at) };
    }
    case "passage": {
      const path = { id: source.document };
      const asked = { user: where.user, seq: source.seq, limit: 1 };
      const page = await get("/api/knowledge/{id}/passages", { path, query: asked, signal });
      const passage = page.data[0];
      return passage ? { text: `${passage.title}\n\n${passage.text}` } : null;
    }
    case "summary": {
      const path = { session: where.session };
      for (let after: string | null | undefined; after !== null; ) {
        const asked = { user: where.user, limit: 100, after };
        const page = await get("/api/summaries/{session}/all", { path, query: asked, signal });
        const summary = page.data.find((one) => one.number === source.number);
        if (summary) return { text: summary.text };
        after = page.next;
      }
      return null;
    }
    case "notes": {
      const note = await get("/api/notes", { query, signal });
      if (note.version === source.version) return { text: note.text };
      const next = { ...query, after: source.version - 1, limit: 1 };
      const [then] = (await get("/api/notes/changes", { query: next, signal })).filter(
        (one) => one.version === source.version,
      );
      return then ? { text: then.text, changed: `The notes are at version ${note.version} now.` } : null;
    }
    case "section":
      return { text: (await get("/api/notes", { query, signal })).text };
    default:
      return null;
  }
}

const MAX_LOOKUPS = 40;
const SHOWN = 200;

export type Beginnings = { begins: Record<string, string>; titles: Record<string, string> };

/** The first words of the items of a report, and the names of the other conversations that it quotes. */
export async function beginnings(where: Where, last: number, report: Report, signal: AbortSignal): Promise<Beginnings> {
  const path = { session: where.session };
  const window = { user: where.user, last: 200, before: last + 1 };
  const own = { user: where.user, agent: where.agent, limit: 100 };
  const [messages, entries, titles] = await Promise.all([
    get("/api/messages/{session}/window", { path, query: window, signal }),
    get("/api/entries", { query: own, signal }),
    titlesIn(report, where.user, signal),
  ]);
  const begins: Record<string, string> = Object.fromEntries([
    ...messages.map((message) => [`messages ${message.seq}`, saidIn(message.content).slice(0, SHOWN)]),
    ...entries.data.map((entry) => [`entries ${entry.id}`, entry.content.slice(0, SHOWN)]),
  ]);
  const recalled = report.items.filter(([layer, source]) => layer === "recall" && !begins[source]);
  await Promise.all(
    recalled.slice(0, MAX_LOOKUPS).map(async ([, source]) => {
      const text = await lookUp(sourceOf(source), where, signal).catch(() => null);
      if (text) begins[source] = text.text.slice(0, SHOWN);
    }),
  );
  return { begins, titles };
}

/** The names of the other conversations that a report quotes, by their ids. */
async function titlesIn(report: Report, user: string, signal: AbortSignal): Promise<Record<string, string>> {
  const sources = [...report.items, ...report.left_out].map(([, source]) => sourceOf(source));
  const ids = new Set(
    sources.flatMap((source) => (source.kind === "message" && source.session ? [source.session] : [])),
  );
  const pairs = await Promise.all(
    [...ids].slice(0, MAX_LOOKUPS).map(async (id) => {
      const session = await get("/api/chat/sessions/{id}", { path: { id }, query: { user }, signal }).catch(() => null);
      return [id, session ? conversationName(session) : ""];
    }),
  );
  return Object.fromEntries(pairs);
}

/** Whether there is a text to look up at all. */
export const hasText = (source: Source) => source.kind !== "other" && source.kind !== "messages";
