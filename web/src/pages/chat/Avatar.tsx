// The sign of an agent: its icon on its colour, or its first letter.
import type { Agent } from "../../api/index";

export function Avatar({ name, agent }: { name: string; agent?: Agent | undefined }) {
  return (
    <span className="avatar" aria-hidden="true" style={agent?.color ? { borderColor: agent.color } : undefined}>
      {agent?.icon || [...name][0]?.toUpperCase() || "?"}
    </span>
  );
}
