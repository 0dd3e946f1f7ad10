// Export an agent's entries as a file.
import { download } from "../../ui/download";

/** Download data about an agent as a JSON file. */
export const downloadJson = (agent: string, contents: string, data: unknown): void =>
  download(fileName(agent, contents), "application/json", JSON.stringify(data, null, 2));

/** A file name for an agent's data, without characters that a file system rejects. */
function fileName(agent: string, contents: string, now = new Date()): string {
  const plain = agent.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "") || "agent";
  return `${plain}-${contents}-${now.toISOString().slice(0, 10)}.json`;
}
