// What was said and has no answer yet: kept by this browser until the server has it and has answered, whatever happens
// to the connection, the page or the server. A message is sent again with its own key, so it is there once.
import type { Message } from "../../api/index";
import { keep, kept } from "../../app/keep";
import { isAnswer, words } from "./said";

export type State = "sending" | "lost" | "failed" | "stopped";
export type Sent = {
  key: string;
  session: string;
  agents: string[];
  text: string;
  /** Data URLs. Where they did not fit into what a browser keeps, only how many there were is left. */
  images: string[];
  lostImages?: number;
  /** The last message that was there when it was said. */
  after: number;
  at: string;
  state: State;
  why?: string;
};

const nameOf = (user: string) => `chatOutbox_${user}`;
const MOST = 3_000_000; // characters; browsers keep about five million for all of a site
const memory = new Map<string, Sent>();

/** What waits in a conversation, the oldest first. */
export function waiting(user: string, session: string): Sent[] {
  return all(user)
    .filter((sent) => sent.session === session)
    .map((sent) => memory.get(sent.key) ?? sent);
}

/** Keep something, or what has become of it. */
export function put(user: string, sent: Sent): void {
  memory.set(sent.key, sent);
  save(user, [...all(user).filter((one) => one.key !== sent.key), sent]);
}

/** It has its answer, or was given up. */
export function drop(user: string, key: string): void {
  memory.delete(key);
  save(
    user,
    all(user).filter((one) => one.key !== key),
  );
}

function all(user: string): Sent[] {
  const text = kept(nameOf(user));
  try {
    const found = JSON.parse(text ?? "[]");
    const listed: Sent[] = Array.isArray(found) ? found : [];
    if (text !== null || memory.size === 0) return listed;
  } catch {
    // what is no list was not written here
  }
  return [...memory.values()]; // a browser that keeps nothing still has what this page knows
}

function save(user: string, list: Sent[]): void {
  list.sort((a, b) => a.at.localeCompare(b.at));
  keep(nameOf(user), list.length ? JSON.stringify(fitting(list)) : null);
}

/** A list as it fits into what a browser keeps: the largest images are left out first, never a word. */
export function fitting(list: Sent[], most = MOST): Sent[] {
  let left = most;
  return list.map((sent) => {
    const size = sent.images.reduce((sum, image) => sum + image.length, 0);
    if (size <= left) {
      left -= size;
      return sent;
    }
    return { ...sent, images: [], lostImages: sent.images.length };
  });
}

/** Where a message that waits is among those that the server has; and whether it has been answered there. */
export function placeOf(sent: Sent, messages: readonly Message[]): { seq: number; answered: boolean } | null {
  const place = messages.findIndex(
    (message) => message.role === "user" && message.seq > sent.after && words(message) === sent.text,
  );
  if (place < 0) return null;
  let answers = 0;
  for (const message of messages.slice(place + 1)) {
    if (message.role === "user" && words(message)) break;
    if (isAnswer(message)) answers++;
  }
  return { seq: (messages[place] as Message).seq, answered: answers >= Math.max(1, sent.agents.length) };
}

const draftOf = (user: string, session: string) => `chatDraft_${user}_${session}`;
const drafts = new Map<string, string>();

/** What was being written in a conversation. */
export const draft = (user: string, session: string) =>
  kept(draftOf(user, session)) ?? drafts.get(draftOf(user, session)) ?? "";

export function keepDraft(user: string, session: string, text: string): void {
  drafts.set(draftOf(user, session), text);
  keep(draftOf(user, session), text || null);
}
