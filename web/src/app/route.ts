// Routing: the current address, and navigation without a page load.
import { useSyncExternalStore } from "react";

const heard = new Set<() => void>();
const tell = () => {
  for (const listener of heard) listener();
};
window.addEventListener("popstate", tell);

/** Go to an address of this app; `replace` leaves no way back to the one before. */
export function go(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  tell();
}

export type Route = { parts: string[]; query: URLSearchParams; path: string };

/** The address one is at: its parts, decoded, and its query. */
export function useRoute(): Route {
  const at = useSyncExternalStore(
    (listener) => {
      heard.add(listener);
      return () => heard.delete(listener);
    },
    () => location.pathname + location.search,
  );
  const [path = "/", query = ""] = at.split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query), path };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address from its parts, each of which may be any text, and a query. */
export function to(parts: readonly string[], query: Record<string, string | undefined> = {}): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) asked.set(name, value);
  const path = `/${parts.map(encodeURIComponent).join("/")}`;
  return asked.size ? `${path}?${asked}` : path;
}
