// Export an agent's entries as a file.
import { download } from "../../ui/download";

/** Give data about an agent to the browser to be kept as a file. */
export const downloadJson = (agent: string, what: string, data: unknown): void =>
  download(fileName(agent, what), "application/json", JSON.stringify(data, null, 2));

/** A name for a file about an agent, of letters that any disk takes. */
function fileName(agent: string, what: string, now = new Date()): string {
  const plain = agent.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "") || "agent";
  return `${plain}-${what}-${now.toISOString().slice(0, 10)}.json`;
}
