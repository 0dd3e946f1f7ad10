// A turn: the user message, the answer, and the model call between them.
import { get } from "../../api/client";
import type { Interaction, Message, Report, Turn } from "../../api/index";
import { saidIn } from "./lookup";

export type Answered = { turn: Turn; agent: string; question?: Message; answer?: Message; call?: Interaction };

/** The turn that a message of a conversation belongs to. */
export async function turnOf(session: string, seq: number, user: string, signal: AbortSignal): Promise<string | null> {
  const page = await get("/api/turns", { query: { session, seq, user, limit: 1 }, signal });
  return page.data[0]?.id ?? null;
}

/** What was asked in a turn, in words. */
export async function questionOf(id: string, user: string, signal: AbortSignal): Promise<string> {
  const { question } = await answered(id, user, signal);
  return question ? saidIn(question.content) : "";
}

export async function answered(id: string, user: string, signal: AbortSignal): Promise<Answered> {
  const turn = await get("/api/turns/{id}", { path: { id }, query: { user }, signal });
  const query = { user, last: 40, before: turn.last_seq + 1, turns_only: true };
  const [session, messages, call] = await Promise.all([
    get("/api/sessions/{id}", { path: { id: turn.session }, query: { user }, signal }),
    get("/api/messages/{session}/window", { path: { session: turn.session }, query, signal }),
    callOf(turn, user, signal),
  ]);
  const prompt = (turn.report as Report | null)?.items.find(([layer]) => layer === "system")?.[1];
  const agent = prompt?.startsWith("agents ") ? prompt.slice("agents ".length) : session.agent;
  const answer = messages.findLast((message) => message.role === "assistant" && message.seq >= turn.first_seq);
  const question = messages.findLast(
    (message) => message.role === "user" && message.seq < (answer?.seq ?? turn.last_seq),
  );
  return { turn, agent, question, answer, call };
}

/** The model call of a turn: it was recorded in the same moment. */
async function callOf(turn: Turn, user: string, signal: AbortSignal): Promise<Interaction | undefined> {
  if (!turn.interaction) return undefined;
  const at = new Date(turn.created_at).getTime();
  const [since, until] = [new Date(at - 1).toISOString(), new Date(at + 2).toISOString()];
  const page = await get("/api/interactions", { query: { user, since, until, limit: 100 }, signal });
  return page.data.find((one) => one.id === turn.interaction);
}
