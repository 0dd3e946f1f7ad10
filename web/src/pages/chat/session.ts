// The conversation that this browser continues. The server decides in one step, so two windows or devices that open at the
// same time get the same one: the active session, or a new one. The id stored in this browser is used only if it is the
// active session's; otherwise it is stale and replaced.
import { get, Problem, post } from "../../api/client";
import { agentInUse, keepAgent } from "../../app/agent";
import { keep } from "../../app/keep";

/** Where this browser keeps the id of the conversation that a user has with an agent. */
export const nameOf = (user: string, agent: string) => `chatSession_${user}_${agent}`;

/** What to do when another window or device goes on with another conversation than the one shown here. */
export function elsewhere(shown: string, active: string | null, here: { count: number; unsaid: boolean }) {
  if (!active || active === shown) return "stay";
  return here.count === 0 && !here.unsaid ? "follow" : "ask";
}

/** The agent that a user spoke with last on this device. */
export const lastAgent = (user: string) => agentInUse(user) || "assistant";

/** Keep which conversation is the one to come back to. */
export function remember(user: string, agent: string, session: string): void {
  keep(nameOf(user, agent), session);
  keepAgent(user, agent);
}

/** The conversation to go on with. For a key that may only read none is made: it has the active one, or none. */
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

/** A new conversation with an agent, or with a group of them; it is the active one from now on, here and on the server. */
export async function begin(user: string, agents: readonly string[]): Promise<string> {
  const agent = agents[0] as string;
  const id = crypto.randomUUID();
  if (agents.length > 1)
    await post("/api/sessions", { query: { user, agent }, body: { id, label: "", attributes: { agents } } });
  else await post("/api/chat/sessions", { body: { user, agent_id: agent, session_id: id } });
  remember(user, agent, id);
  return id;
}
