// The conversation that this browser continues. The server decides in one step, so two windows or devices that open at the
// same time get the same conversation: the active one, or a new one. The id stored in this browser is used only if it is
// the id of the active conversation; otherwise it is stale and replaced.
import { get, Problem, post } from "../../api/client";
import { agentInUse, storeAgent } from "../../app/agent";
import { store } from "../../app/storage";

/** The storage key of the conversation that a user has with an agent. */
export const nameOf = (user: string, agent: string) => `chatSession_${user}_${agent}`;

/** The reaction to another window or device that switched to another conversation. */
export function onOtherActive(shown: string, active: string | null, current: { count: number; hasUnsent: boolean }) {
  if (!active || active === shown) return "stay";
  return current.count === 0 && !current.hasUnsent ? "follow" : "ask";
}

/** The agent that the user last chatted with on this device. */
export const lastAgent = (user: string) => agentInUse(user) || "assistant";

/** Store the conversation to return to. */
export function remember(user: string, agent: string, session: string): void {
  store(nameOf(user, agent), session);
  storeAgent(user, agent);
}

/** The conversation to continue. A read-only key gets the active one, or none; no conversation is created for it. */
export async function find(user: string, agent: string, mayWrite: boolean, signal?: AbortSignal) {
  if (mayWrite) {
    const { id } = await post("/api/chat/sessions", { body: { user, agent_id: agent }, signal });
    remember(user, agent, id);
    return id;
  }
  try {
    return (await get("/api/sessions/active", { query: { user, agent }, signal })).id;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Create a conversation with one or more agents and make it the active one, here and on the server. */
export async function createSession(user: string, agents: readonly string[]): Promise<string> {
  const agent = agents[0] as string;
  const id = crypto.randomUUID();
  if (agents.length > 1)
    await post("/api/sessions", { query: { user, agent }, body: { id, label: "", attributes: { agents } } });
  else await post("/api/chat/sessions", { body: { user, agent_id: agent, session_id: id } });
  remember(user, agent, id);
  return id;
}
