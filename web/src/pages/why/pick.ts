// The conversation to explain: from the address, else the agent's active one, else the newest.
import { get, Problem } from "../../api/client";
import type { ChatSession } from "../../api/index";

export type Session = ChatSession;
export type Picked = { sessions: Session[]; agents: string[]; agent: string; session: Session | null };
const DEFAULT = "assistant";

export async function pick(
  user: string,
  asked: { session: string | null; agent: string | null },
  signal: AbortSignal,
): Promise<Picked> {
  const [newest, agents, own] = await Promise.all([
    get("/api/chat/sessions", { query: { user, limit: 100 }, signal }),
    get("/api/agents", { query: { limit: 100 }, signal }),
    asked.session ? get("/api/chat/sessions/{id}", { path: { id: asked.session }, query: { user }, signal }) : null,
  ]);
  const agent = own?.agent ?? asked.agent ?? newest.data[0]?.agent ?? DEFAULT;
  // An agent that nobody talked to lately is not among the newest of all.
  const its = newest.next
    ? (await get("/api/chat/sessions", { query: { user, agent, limit: 100 }, signal })).data
    : newest.data.filter((one) => one.agent === agent);
  const session = own ?? (its.length ? await active(user, agent, signal) : null) ?? its[0] ?? null;
  const names = new Set([agent, ...agents.data.map((one) => one.name), ...newest.data.map((one) => one.agent)]);
  return { sessions: its, agents: [...names].sort(), agent, session };
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
