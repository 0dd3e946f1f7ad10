// The conversation to explain: from the address, else the agent's active one, else the newest.
import { get, Problem } from "../../api/client";
import type { ChatSession } from "../../api/index";

export type Session = ChatSession;
export type Choice = { sessions: Session[]; agents: string[]; agent: string; session: Session | null };
const DEFAULT = "assistant";

export async function pick(
  user: string,
  requested: { session: string | null; agent: string | null },
  signal: AbortSignal,
): Promise<Choice> {
  const [newest, agents, named] = await Promise.all([
    get("/api/chat/sessions", { query: { user, limit: 100 }, signal }),
    get("/api/agents", { query: { limit: 100 }, signal }),
    requested.session
      ? get("/api/chat/sessions/{id}", { path: { id: requested.session }, query: { user }, signal })
      : null,
  ]);
  const agent = named?.agent ?? requested.agent ?? newest.data[0]?.agent ?? DEFAULT;
  // The newest conversations need not include one of this agent.
  const sessions = newest.next
    ? (await get("/api/chat/sessions", { query: { user, agent, limit: 100 }, signal })).data
    : newest.data.filter((item) => item.agent === agent);
  const session = named ?? (sessions.length ? await active(user, agent, signal) : null) ?? sessions[0] ?? null;
  const names = new Set([agent, ...agents.data.map((item) => item.name), ...newest.data.map((item) => item.agent)]);
  return { sessions, agents: [...names].sort(), agent, session };
}

async function active(user: string, agent: string, signal: AbortSignal): Promise<Session | null> {
  try {
    const { id } = await get("/api/sessions/active", { query: { user, agent }, signal });
    return await get("/api/chat/sessions/{id}", { path: { id }, query: { user }, signal });
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}
