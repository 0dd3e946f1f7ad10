// The current text of an item in a stored report; reports hold no text. Changed items are marked as changed, and removed
// items have no text.
import { get, Problem } from "../../api/client";
import type { Fact, Message, Report } from "../../api/index";
import { conversationName } from "../../app/conversation";
import { areaOf, type Source, sourceOf } from "./source";

export type PromptScope = { user: string; agent: string; session: string; at: string };
export type SourceText = { text: string; changed?: string };

/** The text of a message's content. */
export function textOf(content: Message["content"]): string {
  const parts = Array.isArray(content.parts) ? content.parts : [];
  const texts = [content.text, ...parts.map((part) => (part as Record<string, unknown> | null)?.text)];
  const nonEmpty = texts.filter((text): text is string => typeof text === "string" && text !== "");
  return [...new Set(nonEmpty)].join("\n") || JSON.stringify(content, null, 2);
}

/** The current text of a source; null if it was removed. */
export async function lookUp(source: Source, scope: PromptScope, signal: AbortSignal): Promise<SourceText | null> {
  try {
    return await fetchText(source, scope, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** True if a server timestamp is later than another. Compares microseconds, which a Date does not have. */
export function isLater(at: string, than: string): boolean {
  const apart = Date.parse(at) - Date.parse(than);
  return apart > 0 || (apart === 0 && at.replace("Z", "") > than.replace("Z", ""));
}

const CHANGED: Partial<Record<Fact["status"], string>> = {
  replaced: "A newer fact has replaced it.",
  retracted: "Retracted.",
  pending: "Waits for review.",
};

async function fetchText(source: Source, scope: PromptScope, signal: AbortSignal): Promise<SourceText | null> {
  const query = { user: scope.user, agent: scope.agent };
  const since = (at: string) => (isLater(at, scope.at) ? "Changed since then." : undefined);
  switch (source.kind) {
    case "message": {
      const path = { session: source.session ?? scope.session, seq: source.seq };
      const message = await get("/api/messages/{session}/{seq}", { path, query: { user: scope.user }, signal });
      return { text: textOf(message.content) };
    }
    case "entry": {
      const entry = await get("/api/entries/{id}", { path: { id: source.id }, query, signal });
      return { text: entry.content, changed: since(entry.updated_at) ?? (entry.expired ? "Expired." : undefined) };
    }
    case "fact": {
      const fact = await get("/api/facts/{id}", { path: { id: source.id }, query: { user: scope.user }, signal });
      return { text: fact.statement, changed: CHANGED[fact.status] };
    }
    case "ref": {
      const ref = await get("/api/refs/{key}/info", { path: { key: source.key }, query: { user: scope.user }, signal });
      return { text: ref.summary, changed: since(ref.updated_at) };
    }
    case "agent": {
      const agent = await get("/api/agents/{name}", { path: { name: source.name }, signal });
      return { text: agent.prompt || `You are ${agent.name}.`, changed: since(agent.updated_at) };
    }
    case "state": {
      const area = areaOf(source.owner, scope.session);
      const item = await get("/api/state/{key}", { path: { key: source.key }, query: { ...query, area }, signal });
      const text = typeof item.value === "string" ? item.value : JSON.stringify(item.value, null, 2);
      return { text, changed: since(item.updated_at) };
    }
    case "passage": {
      const path = { id: source.document };
      const params = { user: scope.user, seq: source.seq, limit: 1 };
      const page = await get("/api/documents/{id}/passages", { path, query: params, signal });
      const passage = page.data[0];
      return passage ? { text: `${passage.title}\n\n${passage.text}` } : null;
    }
    case "summary": {
      const path = { session: scope.session };
      for (let after: string | null | undefined; after !== null; ) {
        const params = { user: scope.user, limit: 100, after };
        const page = await get("/api/summaries/{session}/all", { path, query: params, signal });
        const summary = page.data.find((item) => item.number === source.number);
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
        (item) => item.version === source.version,
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
const MAX_PROFILE_FACTS = 100;
const SHOWN = 200;

export type Previews = { previews: Record<string, string>; titles: Record<string, string> };

/** The first words of the items of a report, and the names of the other conversations that it quotes. */
export async function loadPreviews(
  scope: PromptScope,
  last: number,
  report: Report,
  signal: AbortSignal,
): Promise<Previews> {
  const path = { session: scope.session };
  const window = { user: scope.user, last: 200, before: last + 1 };
  const filter = { user: scope.user, agent: scope.agent, limit: 100 };
  const hasFacts = report.items.some(([layer]) => layer === "facts");
  const [messages, entries, facts, titles] = await Promise.all([
    get("/api/messages/{session}/window", { path, query: window, signal }),
    get("/api/entries", { query: filter, signal }),
    hasFacts ? get("/api/facts", { query: { user: scope.user, limit: MAX_PROFILE_FACTS }, signal }) : { data: [] },
    titlesIn(report, scope.user, signal),
  ]);
  const previews: Record<string, string> = Object.fromEntries([
    ...messages.map((message) => [`messages ${message.seq}`, textOf(message.content).slice(0, SHOWN)]),
    ...entries.data.map((entry) => [`entries ${entry.id}`, entry.content.slice(0, SHOWN)]),
    ...facts.data.map((fact) => [`facts ${fact.id}`, fact.statement.slice(0, SHOWN)]),
  ]);
  const recalled = report.items.filter(([layer, source]) => layer === "recall" && !previews[source]);
  await Promise.all(
    recalled.slice(0, MAX_LOOKUPS).map(async ([, source]) => {
      const text = await lookUp(sourceOf(source), scope, signal).catch(() => null);
      if (text) previews[source] = text.text.slice(0, SHOWN);
    }),
  );
  return { previews, titles };
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

/** True if the source has a text that can be requested. */
export const hasText = (source: Source) => source.kind !== "other" && source.kind !== "messages";
