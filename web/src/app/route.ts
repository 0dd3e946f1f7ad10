// Routing: the current address, and navigation without a page load.
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
const notify = () => {
  for (const listener of listeners) listener();
};
window.addEventListener("popstate", notify);

/** Navigate to an address of this app; with `replace`, Back skips the current address. */
export function go(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  notify();
}

export type Route = { parts: string[]; query: URLSearchParams; path: string };

/** The current address: its decoded parts and its query. */
export function useRoute(): Route {
  const address = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => location.pathname + location.search,
  );
  const [path = "/", query = ""] = address.split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query), path };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address with these parts, which this function encodes, and this query. */
export function to(parts: readonly string[], query: Record<string, string | undefined> = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) params.set(name, value);
  const path = `/${parts.map(encodeURIComponent).join("/")}`;
  return params.size ? `${path}?${params}` : path;
}
