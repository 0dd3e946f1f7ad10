// What stands below the stored messages: those that wait for the server, answers as they are written, and what became of
// them. Stored messages are rows by their number alone, so that a conversation of any length has its whole length.
import type { Live, Voice } from "./live";
import { placeOf, type Sent } from "./outbox";
import { isAnswer } from "./said";
import type { Talk } from "./talk";

export type Row =
  | { type: "message"; key: string; seq: number }
  | { type: "said"; key: string; sent: Sent }
  | { type: "voice"; key: string; voice: Voice }
  | { type: "state"; key: string; sent: Sent; live: Live | undefined; kept: boolean };

/** The rows after the last stored message. */
export function extraRows(talk: Pick<Talk, "sent" | "live" | "known">): Row[] {
  return talk.sent.flatMap((sent): Row[] => {
    const live = talk.live.get(sent.key);
    const stored = talk.known(sent.after);
    const place = placeOf(sent, stored);
    const answered = new Set(
      place ? stored.filter((one) => one.seq > place.seq && isAnswer(one)).map((one) => one.author ?? "") : [],
    );
    const voices = (live?.voices ?? []).filter(
      (voice) => !answered.has(voice.agent) && (voice.blocks.length || voice.error),
    );
    return [
      ...(place ? [] : [{ type: "said" as const, key: `said ${sent.key}`, sent }]),
      ...voices.map((voice) => ({ type: "voice" as const, key: `voice ${sent.key} ${voice.agent}`, voice })),
      { type: "state", key: `state ${sent.key}`, sent, live, kept: Boolean(place || live?.kept) },
    ];
  });
}
