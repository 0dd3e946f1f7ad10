// Messages without an answer. They are kept in this browser until the server has stored and answered them, even if the
// connection, the page or the server fails. A retry uses the same idempotency key, so a message is stored once.
import { readStored, store } from "../../app/storage";

export type OutgoingMessage = {
  key: string;
  session: string;
  agents: string[];
  text: string;
  /** Data URLs. If they do not fit into the browser's storage, only their number is kept, in `lostImages`. */
  images: string[];
  lostImages?: number | undefined;
  at: string;
  state: "sending" | "lost" | "failed" | "stopped";
  why?: string | undefined;
  /** The message number, once the server has stored it. */
  seq?: number | undefined;
  /** The server has received it; it may still be queued. */
  taken?: boolean | undefined;
};

const nameOf = (user: string) => `chatOutbox_${user}`;
const MAX_STORED_CHARACTERS = 3_000_000; // browsers store about five million for a site
/** The lists that could not be stored in this browser, by user; only this page has them. */
const memoryOnly = new Map<string, OutgoingMessage[]>();
/** The images of waiting messages by key, including those that are too large to store. */
const images = new Map<string, string[]>();

/** The waiting messages of a conversation, oldest first. */
export function waiting(user: string, session: string): OutgoingMessage[] {
  return load(user)
    .filter((message) => message.session === session)
    .map((message) =>
      images.has(message.key) ? { ...message, images: images.get(message.key) ?? [], lostImages: undefined } : message,
    );
}

/** Store a message or its new state. */
export function saveMessage(user: string, message: OutgoingMessage): void {
  if (message.images.length) images.set(message.key, message.images);
  saveList(user, [...load(user).filter((other) => other.key !== message.key), message]);
}

/** Remove a message that was answered or discarded. */
export function removeMessages(user: string, matches: (message: OutgoingMessage) => boolean): void {
  const list = load(user);
  for (const message of list) if (matches(message)) images.delete(message.key);
  saveList(
    user,
    list.filter((message) => !matches(message)),
  );
}

function load(user: string): OutgoingMessage[] {
  const inMemory = memoryOnly.get(user);
  if (inMemory) return inMemory;
  try {
    const stored = JSON.parse(readStored(nameOf(user)) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return []; // invalid content was not written by this app
  }
}

function saveList(user: string, list: OutgoingMessage[]): void {
  list.sort((a, b) => a.at.localeCompare(b.at));
  const text = list.length ? JSON.stringify(fitting(list)) : null;
  store(nameOf(user), text);
  if (readStored(nameOf(user)) === text) memoryOnly.delete(user);
  else memoryOnly.set(user, list);
}

/** The list as it fits into the browser's storage: all text, and images, oldest first, while there is space. */
export function fitting(list: OutgoingMessage[], limit = MAX_STORED_CHARACTERS): OutgoingMessage[] {
  let remaining = limit;
  return list.map((message) => {
    const size = message.images.reduce((sum, image) => sum + image.length, 0);
    if (size <= remaining) {
      remaining -= size;
      return message;
    }
    return { ...message, images: [], lostImages: message.images.length };
  });
}
