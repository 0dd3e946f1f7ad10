// The agent that a user last used on this device, in the chat or on a memory page.
import { readStored, store } from "./storage";

const nameOf = (user: string) => `chatAgent_${user}`;

export const agentInUse = (user: string): string | null => readStored(nameOf(user));
export const storeAgent = (user: string, agent: string): void => store(nameOf(user), agent);
