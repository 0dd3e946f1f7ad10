// What the address asks for beyond the tab: filters and what is open. Changing it is going somewhere, so that Back works.
import { go, to, useRoute } from "../../app/route";

export type Asked = {
  query: URLSearchParams;
  /** Go where these are asked for too; an undefined one no more. */
  ask: (changes: Record<string, string | undefined>, replace?: boolean) => void;
  /** The address of that. */
  href: (changes: Record<string, string | undefined>) => string;
};

export function useAsked(): Asked {
  const { parts, query } = useRoute();
  const href = (changes: Record<string, string | undefined>) => to(parts, { ...Object.fromEntries(query), ...changes });
  return { query, href, ask: (changes, replace = false) => go(href(changes), replace) };
}
