// The state of a memory page in the address: filters and the open item. Changing it adds to the history, so that Back works.
import { go, to, useRoute } from "../../app/route";

export type Changes = Record<string, string | undefined>;
export type PageState = {
  query: URLSearchParams;
  /** Navigate with these parameters changed; undefined removes one. */
  change: (changes: Changes, replace?: boolean) => void;
  /** The address with these parameters changed. */
  href: (changes: Changes) => string;
};

export function usePageState(): PageState {
  const { parts, query } = useRoute();
  const joined = (current: URLSearchParams, changes: Changes) =>
    to(parts, { ...Object.fromEntries(current), ...changes });
  return {
    query,
    href: (changes) => joined(query, changes),
    // Use the current address, which may have changed since the last render.
    change: (changes, replace = false) => go(joined(new URLSearchParams(location.search), changes), replace),
  };
}
