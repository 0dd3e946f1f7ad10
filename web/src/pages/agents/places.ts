// The addresses of the agents' pages. A name can be any text, even "new", which is the page that creates an agent.
import { to } from "../../app/route";

export const TABS = ["settings", "memory", "proposals", "whiteboard"] as const;
export type Tab = (typeof TABS)[number];
/** The agent that answers if none was chosen; it need not be configured. */
export const ASSISTANT = "assistant";

/** The address of a tab of an agent. */
export function agentPath(
  agent: string,
  tab: Tab = "settings",
  query: Record<string, string | undefined> = {},
): string {
  return to(tab === "settings" && agent !== "new" ? ["agents", agent] : ["agents", agent, tab], query);
}

/** The page that the parts of an address name. */
export function pageOf(
  parts: readonly string[],
): { page: "list" } | { page: "new" } | { page: "agent"; name: string; tab: Tab } {
  const [, name, tab] = parts;
  if (name === undefined) return { page: "list" };
  if (name === "new" && tab === undefined) return { page: "new" };
  return { page: "agent", name, tab: TABS.find((candidate) => candidate === tab) ?? "settings" };
}
