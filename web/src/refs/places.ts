// The address of each kind of record in this app.
import { to } from "../app/route";

export const messageAt = (agent: string, session: string, seq?: number) =>
  to(["chat", agent, session], { at: seq?.toString() });
export const notesOf = (agent: string) => to(["memory", "notes"], { agent });
export const agentAt = (agent: string) => to(["agents", agent]);
export const entryAt = (agent: string, id: string) => to(["memory", "entries"], { agent, entry: id });
export const factAt = (id: string) => to(["memory", "facts"], { fact: id });
export const stateAt = (area: string, key: string) => to(["memory", "state"], { area, prefix: key });
export const passageAt = (document: string, seq: number) =>
  to(["memory", "documents"], { doc: document, seq: String(seq) });
