// The rows below the stored messages: messages that wait for the server, answers in progress, and failures. Stored messages
// are rows by number alone, so that a conversation has its full length from the start.
import type { Live, Voice } from "./live";
import type { Sent } from "./outbox";
import type { Talk } from "./talk";

export type Row =
  | { type: "message"; key: string; seq: number }
  | { type: "said"; key: string; sent: Sent }
  | { type: "voice"; key: string; voice: Voice }
  | { type: "state"; key: string; sent: Sent; live: Live | undefined };

/** The rows after the last stored message: whatever is stored and read has its row by its number. */
export function extraRows(talk: Pick<Talk, "sent" | "live" | "last">): Row[] {
  const read = (seq: number | undefined) => !!seq && seq <= talk.last;
  return talk.sent.flatMap((sent): Row[] => {
    const live = talk.live.get(sent.key);
    const voices = (live?.voices ?? []).filter((voice) => !read(voice.seq) && (voice.blocks.length || voice.error));
    return [
      ...(read(sent.seq) ? [] : [{ type: "said" as const, key: `said ${sent.key}`, sent }]),
      ...voices.map((voice) => ({ type: "voice" as const, key: `voice ${sent.key} ${voice.agent}`, voice })),
      { type: "state", key: `state ${sent.key}`, sent, live },
    ];
  });
}
