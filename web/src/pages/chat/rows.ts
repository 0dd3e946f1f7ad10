// The rows below the stored messages: messages that wait for the server, answers in progress, and failures. Stored messages
// are rows by number alone, so that a conversation has its full length from the start.
import type { AgentReply, Live } from "./live";
import type { OutgoingMessage } from "./outbox";
import type { Talk } from "./talk";

export type Row =
  | { type: "message"; key: string; seq: number }
  | { type: "said"; key: string; outgoing: OutgoingMessage }
  | { type: "voice"; key: string; voice: AgentReply }
  | { type: "state"; key: string; outgoing: OutgoingMessage; live: Live | undefined };

/** The rows after the last stored message, without messages that are loaded by now. */
export function extraRows(talk: Pick<Talk, "outbox" | "live" | "last">): Row[] {
  const read = (seq: number | undefined) => !!seq && seq <= talk.last;
  return talk.outbox.flatMap((outgoing): Row[] => {
    const live = talk.live.get(outgoing.key);
    const replies = (live?.replies ?? []).filter((voice) => !read(voice.seq) && (voice.blocks.length || voice.error));
    return [
      ...(read(outgoing.seq) ? [] : [{ type: "said" as const, key: `said ${outgoing.key}`, outgoing }]),
      ...replies.map((voice) => ({ type: "voice" as const, key: `voice ${outgoing.key} ${voice.agent}`, voice })),
      { type: "state", key: `state ${outgoing.key}`, outgoing, live },
    ];
  });
}
