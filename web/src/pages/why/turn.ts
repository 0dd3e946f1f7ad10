// A turn: the user message, the answer, and the model call between them.
import { get } from "../../api/client";
import type { Interaction, Message, Report, Turn } from "../../api/index";
import { textOf } from "./lookup";

export type AnsweredTurn = { turn: Turn; agent: string; question?: Message; answer?: Message; call?: Interaction };

/** The turn that a message of a conversation belongs to. */
export async function findTurn(
  session: string,
  seq: number,
  user: string,
  signal: AbortSignal,
): Promise<string | null> {
  const page = await get("/api/turns", { query: { session, seq, user, limit: 1 }, signal });
  return page.data[0]?.id ?? null;
}

/** The text of the user message of a turn. */
export async function questionOf(id: string, user: string, signal: AbortSignal): Promise<string> {
  const { question } = await loadAnswer(id, user, signal);
  return question ? textOf(question.content) : "";
}

export async function loadAnswer(id: string, user: string, signal: AbortSignal): Promise<AnsweredTurn> {
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

/** The model call of a turn, recorded at the same time. */
async function callOf(turn: Turn, user: string, signal: AbortSignal): Promise<Interaction | undefined> {
  if (!turn.interaction) return undefined;
  const createdAt = new Date(turn.created_at).getTime();
  const [since, until] = [new Date(createdAt - 1).toISOString(), new Date(createdAt + 2).toISOString()];
  const page = await get("/api/interactions", { query: { user, since, until, limit: 100 }, signal });
  return page.data.find((item) => item.id === turn.interaction);
}
