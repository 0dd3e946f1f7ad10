// Load an agent by name. Memory works for any agent name, configured or not, so a missing agent is not an error.
import type { Agent } from "../../api";
import { get, Problem } from "../../api/client";

export async function findAgent(name: string, signal: AbortSignal): Promise<Agent | null> {
  const first = await get("/api/agents", { query: { limit: 100 }, signal });
  const agent = first.data.find((agent) => agent.name === name);
  if (agent || !first.next) return agent ?? null;
  try {
    return await get("/api/agents/{name}", { path: { name }, signal });
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}
