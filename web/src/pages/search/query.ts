// The search query in the address, so that Back works and a search can be shared.
import { midnight } from "../../ui/days";

export const KINDS = ["messages", "facts", "notes", "entries", "refs", "state", "documents"] as const;
export type Kind = (typeof KINDS)[number];
export const TITLES: Record<Kind, string> = {
  messages: "Messages",
  facts: "Facts",
  notes: "Notes",
  entries: "Entries",
  refs: "References",
  state: "State",
  documents: "Documents",
};
export type SearchQuery = {
  q: string;
  kinds: Kind[];
  /** any, day, week, month, or a day such as 2026-01-31. */
  since: string;
  until: string;
  agent: string;
  session: string;
};

const DAYS = new Map([
  ["day", 1],
  ["week", 7],
  ["month", 30],
]);
const isDay = (text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(new Date(text).getTime());

export function parseQuery(query: URLSearchParams): SearchQuery {
  const [since, until] = [query.get("since") ?? "", query.get("until") ?? ""];
  const kinds = (query.get("kinds") ?? "").split(",");
  return {
    q: query.get("q") ?? "",
    kinds: KINDS.filter((kind) => kinds.includes(kind)),
    since: DAYS.has(since) || isDay(since) ? since : "",
    until: isDay(until) ? until : "",
    agent: query.get("agent") ?? "",
    session: query.get("session") ?? "",
  };
}

export function addressOf(search: SearchQuery): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) if (value.length) query.set(name, String(value));
  return query.size ? `/search?${query}` : "/search";
}

/** The period as API parameters: days are in the user's time zone, and the last one is included. */
export function span({ since, until }: SearchQuery, now = new Date()): { since: string | null; until: string | null } {
  const days = DAYS.get(since);
  const from = days ? new Date(now.getTime() - days * 86_400_000).toISOString() : midnight(since);
  return { since: from ?? null, until: midnight(until, 1) ?? null };
}

/** True if the search has a custom period. */
export const hasOwnDays = ({ since, until }: SearchQuery) => isDay(since) || until !== "";
