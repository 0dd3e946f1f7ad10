// The state of a memory page in the address: filters and the open item. Changing it adds to the history, so that Back works.
import { go, to, useRoute } from "../../app/route";

export type Changes = Record<string, string | undefined>;
export type Asked = {
  query: URLSearchParams;
  /** Go where these are asked for too; an undefined one no more. */
  ask: (changes: Changes, replace?: boolean) => void;
  /** The address of that. */
  href: (changes: Changes) => string;
};

export function useAsked(): Asked {
  const { parts, query } = useRoute();
  const joined = (before: URLSearchParams, changes: Changes) =>
    to(parts, { ...Object.fromEntries(before), ...changes });
  return {
    query,
    href: (changes) => joined(query, changes),
    // Whoever asks late, after a pause, adds to what is asked for by then.
    ask: (changes, replace = false) => go(joined(new URLSearchParams(location.search), changes), replace),
  };
}
