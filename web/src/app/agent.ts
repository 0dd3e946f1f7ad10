// The agent that a user last used on this device, in the chat or on a memory page.
import { keep, kept } from "./keep";

const nameOf = (user: string) => `chatAgent_${user}`;

export const agentInUse = (user: string): string | null => kept(nameOf(user));
export const keepAgent = (user: string, agent: string): void => keep(nameOf(user), agent);
