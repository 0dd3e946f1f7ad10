// An answer while it is written: the state of a turn's events so far, by agent.
import type { Event } from "../../api/events";

export type Block =
  | { type: "text"; text: string }
  | { type: "tool"; id: string; name: string; arguments: string; ok?: boolean; short?: string };
/** The answer of one agent. `seq` is the number of its last message, once it is complete. */
export type AgentReply = { agent: string; blocks: Block[]; done: boolean; error: string; seq: number };
export type Live = {
  replies: AgentReply[];
  /** The number of turns queued before this one. */
  waiting: number;
  /** The id of the last event; a reconnect resumes after it. */
  last: string;
  /** The number of the user message, once the server has stored it. */
  askedSeq: number;
  error: { detail: string; type: string; status: number } | null;
  over: boolean;
};

// The part of an error message about the idempotency key; the page has a retry button instead.
const KEYED = / *(The message is stored; the turn can continue\. )?Send it again with the key '[^']*'\./;

export const emptyLive = (): Live => ({ replies: [], waiting: 0, last: "", askedSeq: 0, error: null, over: false });

/** Apply an event to the state; repeated events start it again from the beginning. */
export function applyEvent(previous: Live, event: Event): Live {
  const isReplay = Number(event.id) > 0 && Number(event.id) <= Number(previous.last);
  const live = { ...(isReplay ? emptyLive() : previous), last: event.id };
  const data = (typeof event.data === "object" && event.data ? event.data : {}) as Record<string, unknown>;
  const agent = String(data.agent_id ?? "");
  const askedSeq = Number(data.asked_seq) || live.askedSeq;
  switch (event.name) {
    case "waiting":
      return { ...live, waiting: Number(data.before) || 1 };
    case "start":
      return { ...live, waiting: 0, askedSeq, replies: updateReply(live.replies, agent, (reply) => reply) };
    case "text":
      return {
        ...live,
        replies: updateReply(live.replies, agent, (reply) => appendText(reply, String(data.text ?? ""))),
      };
    case "tool_call": {
      const { id, name, arguments: toolArguments } = data;
      const call: Block = { type: "tool", id: String(id), name: String(name), arguments: String(toolArguments ?? "") };
      return {
        ...live,
        replies: updateReply(live.replies, agent, (reply) => ({ ...reply, blocks: [...reply.blocks, call] })),
      };
    }
    case "tool_result":
      return { ...live, replies: updateReply(live.replies, agent, (reply) => setToolResult(reply, data)) };
    case "message": {
      const [text, seq] = [String(data.message ?? ""), Number(data.last_seq) || 0];
      return {
        ...live,
        askedSeq,
        replies: updateReply(live.replies, agent, (reply) => setFinalText(reply, text, seq)),
      };
    }
    case "error": {
      const detail = String(data.detail ?? "The answer failed.").replace(KEYED, "");
      const replies = agent ? updateReply(live.replies, agent, (reply) => ({ ...reply, error: detail })) : live.replies;
      return { ...live, replies, error: { detail, type: String(data.type ?? ""), status: Number(data.status) || 0 } };
    }
    case "done":
      return { ...live, over: true };
    default:
      return live;
  }
}

function updateReply(replies: AgentReply[], agent: string, change: (reply: AgentReply) => AgentReply): AgentReply[] {
  if (!replies.some((reply) => reply.agent === agent && !reply.done)) {
    if (replies.some((reply) => reply.agent === agent)) return replies;
    return [...replies, change({ agent, blocks: [], done: false, error: "", seq: 0 })];
  }
  return replies.map((reply) => (reply.agent === agent ? change(reply) : reply));
}

function appendText(reply: AgentReply, text: string): AgentReply {
  const last = reply.blocks.at(-1);
  if (last?.type !== "text") return { ...reply, blocks: [...reply.blocks, { type: "text", text }] };
  return { ...reply, blocks: [...reply.blocks.slice(0, -1), { type: "text", text: last.text + text }] };
}

function setToolResult(reply: AgentReply, data: Record<string, unknown>): AgentReply {
  const result = { ok: Boolean(data.ok), short: String(data.short ?? "") };
  return {
    ...reply,
    blocks: reply.blocks.map((block) =>
      block.type === "tool" && block.id === data.id && block.ok === undefined ? { ...block, ...result } : block,
    ),
  };
}

/** Replace the streamed text by the complete answer as it is stored. */
function setFinalText(reply: AgentReply, text: string, seq: number): AgentReply {
  const last = reply.blocks.at(-1);
  const earlier = last?.type === "text" ? reply.blocks.slice(0, -1) : reply.blocks;
  return { ...reply, blocks: text ? [...earlier, { type: "text", text }] : reply.blocks, done: true, seq };
}

/** A growing text split into paragraphs, of which only the last one changes, so that only it is rendered again. */
export function paragraphs(text: string): string[] {
  const result: string[] = [];
  let piece: string[] = [];
  let fence = "";
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && !fence) fence = mark;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = "";
    if (!line.trim() && !fence && piece.length && !/^\s*([-*+]|\d+[.)]|\||>|\s{2,})/.test(piece.at(-1) as string)) {
      result.push(piece.join("\n"));
      piece = [];
    } else piece.push(line);
  }
  if (piece.length) result.push(piece.join("\n"));
  return result;
}
