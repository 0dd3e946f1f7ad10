// The entries to show: page by page as a list, or at once as search results.
import type { Entry } from "../../api";
import { get, Problem } from "../../api/client";
import { type Loaded, type Pages, useLoad, usePages } from "../../api/load";
import { days } from "../../ui/days";
import type { Scope } from "./editing";
import { type Filter, matches, queryOf } from "./filters";

const PAGE = 100;
const MAX_PAGE_SIZE = 1000;
const BY_MEANING = 50;

export function useEntries(scope: Scope, filter: Filter): Pages<Entry> {
  const meaning = filter.meaning && filter.text.trim() !== "";
  return usePages<Entry>(
    async (after, signal) => {
      if (!meaning) return get("/api/entries", { query: { ...scope, ...queryOf(filter), limit: PAGE, after }, signal });
      const query = { ...scope, ...days(filter.since, filter.until), query: filter.text.trim(), limit: BY_MEANING };
      const hits = await get("/api/entries/search", { query, signal });
      return { data: hits.data.filter((entry) => matches(filter, entry)), next: null };
    },
    [scope.agent, scope.user, filter],
  );
}

/** All entries that match the filter, including those that are not loaded yet. */
export async function matching(scope: Scope, filter: Filter, signal: AbortSignal): Promise<Entry[]> {
  const entries: Entry[] = [];
  let after: string | null | undefined;
  do {
    const query = { ...scope, ...queryOf(filter), limit: MAX_PAGE_SIZE, after };
    const page = await get("/api/entries", { query, signal });
    entries.push(...page.data);
    after = page.next;
  } while (after);
  return entries;
}

/** The entry named in the address, if it still exists. */
export function useEntry(id: string | null, scope: Scope): Loaded<Entry | null> {
  return useLoad<Entry | null>(
    async (signal) => {
      if (!id) return null;
      try {
        return await get("/api/entries/{id}", { path: { id }, query: scope, signal });
      } catch (error) {
        if (error instanceof Problem && error.status === 404) throw new Error("The linked entry was deleted.");
        throw error;
      }
    },
    [id, scope.agent, scope.user],
  );
}
