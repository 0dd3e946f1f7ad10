// Which conversation this browser goes on with (C6): its own id if the server confirms that it is the active one, else the
// server's active one, else a new one that both sides keep. The server decides in one step, so two windows that open at
// once, or two devices, end in the same conversation.
import { get, patch, post } from "../../api/client";
import { keep, kept } from "../../app/keep";

/** Where this browser keeps the id of the conversation that a user has with an agent. */
export const nameOf = (user: string, agent: string) => `chatSession_${user}_${agent}`;
const agentOf = (user: string) => `chatAgent_${user}`;

/** What is kept here, and what the server says is to be gone on with: what to keep, and how that came about. */
export function settle(mine: string | null, server: { id: string; count: number }) {
  if (mine === server.id) return { id: server.id, how: "confirmed" as const };
  return { id: server.id, how: server.count > 0 ? ("active" as const) : ("new" as const), dropped: mine };
}

/** What to do when another window or device goes on with another conversation than the one shown here. */
export function elsewhere(shown: string, active: string | null, here: { count: number; unsaid: boolean }) {
  if (!active || active === shown) return "stay";
  return here.count === 0 && !here.unsaid ? "follow" : "ask";
}

/** The agent that a user spoke with last on this device. */
export const lastAgent = (user: string) => kept(agentOf(user)) || "assistant";

/** Keep which conversation is the one to come back to. */
export function remember(user: string, agent: string, session: string): void {
  keep(nameOf(user, agent), session);
  keep(agentOf(user), agent);
}

/** The conversation to go on with. For a key that may only read none is made: it has the newest there is, or none. */
export async function find(user: string, agent: string, mayWrite: boolean, signal?: AbortSignal) {
  if (!mayWrite) {
    const page = await get("/api/chat/sessions", { query: { user, agent, limit: 1 }, signal });
    return page.data[0]?.id ?? null;
  }
  const found = await post("/api/chat/sessions", { body: { user, agent_id: agent }, signal });
  const { id } = settle(kept(nameOf(user, agent)), found);
  remember(user, agent, id);
  return id;
}

/** A new conversation with an agent, or with a group of them; it is the active one from now on, here and on the server. */
export async function begin(user: string, agents: readonly string[]): Promise<string> {
  const agent = agents[0] as string;
  const id = crypto.randomUUID();
  await post("/api/chat/sessions", { body: { user, agent_id: agent, session_id: id } });
  if (agents.length > 1) {
    await patch("/api/sessions/{id}", { path: { id }, query: { user }, body: { attributes: { agents } } });
  }
  remember(user, agent, id);
  return id;
}
