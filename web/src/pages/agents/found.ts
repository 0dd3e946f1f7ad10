// The entries to show: page by page as a list, or at once as search results.
import type { Entry } from "../../api";
import { get, Problem } from "../../api/client";
import { type Loaded, type Pages, useLoad, usePages } from "../../api/load";
import { days } from "../../ui/days";
import type { Scope } from "./editing";
import { asked, type Filter, keeps } from "./filters";

const PAGE = 100;
const MOST_IN_A_PAGE = 1000;
const BY_MEANING = 50;

export function useEntries(scope: Scope, filter: Filter): Pages<Entry> {
  const meaning = filter.meaning && filter.text.trim() !== "";
  return usePages<Entry>(
    async (after, signal) => {
      if (!meaning) return get("/api/entries", { query: { ...scope, ...asked(filter), limit: PAGE, after }, signal });
      const query = { ...scope, ...days(filter.since, filter.until), query: filter.text.trim(), limit: BY_MEANING };
      const found = await get("/api/entries/search", { query, signal });
      return { data: found.filter((entry) => keeps(filter, entry)), next: null };
    },
    [scope.agent, scope.user, filter],
  );
}

/** Everything that the filter keeps, also what was not loaded yet. */
export async function matching(scope: Scope, filter: Filter, signal: AbortSignal): Promise<Entry[]> {
  const all: Entry[] = [];
  let after: string | null | undefined;
  do {
    const query = { ...scope, ...asked(filter), limit: MOST_IN_A_PAGE, after };
    const page = await get("/api/entries", { query, signal });
    all.push(...page.data);
    after = page.next;
  } while (after);
  return all;
}

/** The entry that an address names, if it is still there. */
export function useOne(id: string | null, scope: Scope): Loaded<Entry | null> {
  return useLoad<Entry | null>(
    async (signal) => {
      if (!id) return null;
      try {
        return await get("/api/entries/{id}", { path: { id }, query: scope, signal });
      } catch (error) {
        if (error instanceof Problem && error.status === 404) throw new Error("The entry that was linked to is gone.");
        throw error;
      }
    },
    [id, scope.agent, scope.user],
  );
}
