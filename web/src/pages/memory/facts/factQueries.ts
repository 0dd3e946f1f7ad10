// The facts to show: page by page as a list, or at once as search results.

import { get } from "../../../api/client";
import type { Entity, Fact, FactChange } from "../../../api/index";
import { type Loaded, type Pages, useLoad, usePages } from "../../../api/load";
import { midnight } from "../../../ui/days";
import { entityOf, TOPICS, type Topic } from "./fact";

const PAGE = 100;
const SEARCH_LIMIT = 50;

/** The filter of the page, as it is in the address. */
export type Filter = { text: string; about: string; topic: Topic | ""; day: string; past: boolean };

export function filterOf(query: URLSearchParams): Filter {
  const topic = query.get("topic") ?? "";
  const day = query.get("at") ?? "";
  return {
    text: (query.get("q") ?? "").trim(),
    about: query.get("about") ?? "",
    topic: topic in TOPICS ? (topic as Topic) : "",
    day: midnight(day) ? day : "",
    past: query.has("past"),
  };
}

export const isFiltered = ({ text, about, topic, day, past }: Filter) => !!(text || about || topic || day || past);

/** The end of a day: what was true at some time of it, and not only in its first moment. */
export function endOfDay(day: string): string | undefined {
  const next = midnight(day, 1);
  return next && new Date(Date.parse(next) - 1).toISOString();
}

/** True if a search result passes the other filters. */
export function matches({ about, topic }: Filter, fact: Fact, entities: readonly Entity[]): boolean {
  const nameOf = (subject: string) => (entityOf(subject, entities)?.name ?? subject).toLowerCase();
  return (!about || nameOf(fact.subject) === nameOf(about)) && (!topic || fact.topic === topic);
}

export function useFacts(user: string, filter: Filter, entities: readonly Entity[]): Pages<Fact> {
  const { text, about, topic, day, past } = filter;
  return usePages<Fact>(
    async (after, signal) => {
      if (text) {
        const facts = await get("/api/facts/search", { query: { user, query: text, limit: SEARCH_LIMIT }, signal });
        return { data: facts.data.filter((fact) => matches(filter, fact, entities)), next: null };
      }
      const which = day ? { at: endOfDay(day) } : { include_replaced: past || undefined };
      const query = { user, about: about || undefined, topic: topic || undefined, ...which, limit: PAGE, after };
      return get("/api/facts", { query, signal });
    },
    [user, text, about, topic, day, past, text && about ? entities : null],
  );
}

/** The facts that wait for a person: pending ones, and those that may contradict another fact. */
export function useReviewQueue(user: string): Pages<Fact> {
  return usePages<Fact>(
    (after, signal) => get("/api/facts/review", { query: { user, limit: PAGE, after }, signal }),
    [user],
  );
}

/** What changed in the facts, newest first. */
export function useTimeline(user: string, about: string, shown: boolean): Pages<FactChange> {
  return usePages<FactChange>(
    async (after, signal) => {
      if (!shown) return { data: [], next: null };
      return get("/api/facts/timeline", { query: { user, about: about || undefined, limit: PAGE, after }, signal });
    },
    [user, about, shown],
  );
}

const MAX_ENTITIES = 1_000;

/** The people and things that facts are about. */
export const useEntities = (user: string): Loaded<Entity[]> =>
  useLoad(
    async (signal) => (await get("/api/facts/entities", { query: { user, limit: MAX_ENTITIES }, signal })).data,
    [user],
  );
