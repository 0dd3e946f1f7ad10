// An answer while it is written: the state of a turn's events so far, by agent.
import type { Event } from "../../api/events";

export type Block =
  | { type: "text"; text: string }
  | { type: "tool"; id: string; name: string; arguments: string; ok?: boolean; short?: string };
/** `seq` is the number of the last message of a whole answer. */
export type Voice = { agent: string; blocks: Block[]; done: boolean; error: string; seq: number };
export type Live = {
  voices: Voice[];
  /** How many other turns are before this one. */
  waiting: number;
  /** The last event that was heard, to go on after it. */
  last: string;
  /** The number of the message that is answered, once the server has it. */
  asked: number;
  error: { detail: string; type: string; status: number } | null;
  over: boolean;
};

// What programs are told about keys; the page has a button for it.
const KEYED =
  / *(What you said is kept: send|Send) it again with the key '[^']*'(, and the turn goes on from there)?\./;

export const nothing = (): Live => ({ voices: [], waiting: 0, last: "", asked: 0, error: null, over: false });

/** What is known after one more event; events that are told again begin it anew. */
export function heard(before: Live, event: Event): Live {
  const again = Number(event.id) > 0 && Number(event.id) <= Number(before.last);
  const live = { ...(again ? nothing() : before), last: event.id };
  const data = (typeof event.data === "object" && event.data ? event.data : {}) as Record<string, unknown>;
  const agent = String(data.agent_id ?? "");
  const asked = Number(data.asked_seq) || live.asked;
  switch (event.name) {
    case "waiting":
      return { ...live, waiting: Number(data.before) || 1 };
    case "start":
      return { ...live, waiting: 0, asked, voices: voiced(live.voices, agent, (voice) => voice) };
    case "text":
      return { ...live, voices: voiced(live.voices, agent, (voice) => spoken(voice, String(data.text ?? ""))) };
    case "tool_call": {
      const { id, name, arguments: given } = data;
      const call: Block = { type: "tool", id: String(id), name: String(name), arguments: String(given ?? "") };
      return {
        ...live,
        voices: voiced(live.voices, agent, (voice) => ({ ...voice, blocks: [...voice.blocks, call] })),
      };
    }
    case "tool_result":
      return { ...live, voices: voiced(live.voices, agent, (voice) => answered(voice, data)) };
    case "message": {
      const [text, seq] = [String(data.message ?? ""), Number(data.last_seq) || 0];
      return { ...live, asked, voices: voiced(live.voices, agent, (voice) => finished(voice, text, seq)) };
    }
    case "error": {
      const detail = String(data.detail ?? "The answer failed.").replace(KEYED, "");
      const voices = agent ? voiced(live.voices, agent, (voice) => ({ ...voice, error: detail })) : live.voices;
      return { ...live, voices, error: { detail, type: String(data.type ?? ""), status: Number(data.status) || 0 } };
    }
    case "done":
      return { ...live, over: true };
    default:
      return live;
  }
}

function voiced(voices: Voice[], agent: string, change: (voice: Voice) => Voice): Voice[] {
  if (!voices.some((voice) => voice.agent === agent && !voice.done)) {
    if (voices.some((voice) => voice.agent === agent)) return voices;
    return [...voices, change({ agent, blocks: [], done: false, error: "", seq: 0 })];
  }
  return voices.map((voice) => (voice.agent === agent ? change(voice) : voice));
}

function spoken(voice: Voice, text: string): Voice {
  const last = voice.blocks.at(-1);
  if (last?.type !== "text") return { ...voice, blocks: [...voice.blocks, { type: "text", text }] };
  return { ...voice, blocks: [...voice.blocks.slice(0, -1), { type: "text", text: last.text + text }] };
}

function answered(voice: Voice, data: Record<string, unknown>): Voice {
  const result = { ok: Boolean(data.ok), short: String(data.short ?? "") };
  return {
    ...voice,
    blocks: voice.blocks.map((block) =>
      block.type === "tool" && block.id === data.id && block.ok === undefined ? { ...block, ...result } : block,
    ),
  };
}

/** The whole answer, as it is stored: it stands in place of what was heard of it. */
function finished(voice: Voice, text: string, seq: number): Voice {
  const last = voice.blocks.at(-1);
  const before = last?.type === "text" ? voice.blocks.slice(0, -1) : voice.blocks;
  return { ...voice, blocks: text ? [...before, { type: "text", text }] : voice.blocks, done: true, seq };
}

/** A growing text in pieces that do not change any more, but for the last: only that one is read again as it grows. */
export function paragraphs(text: string): string[] {
  const found: string[] = [];
  let piece: string[] = [];
  let fence = "";
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && !fence) fence = mark;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = "";
    if (!line.trim() && !fence && piece.length && !/^\s*([-*+]|\d+[.)]|\||>|\s{2,})/.test(piece.at(-1) as string)) {
      found.push(piece.join("\n"));
      piece = [];
    } else piece.push(line);
  }
  if (piece.length) found.push(piece.join("\n"));
  return found;
}
