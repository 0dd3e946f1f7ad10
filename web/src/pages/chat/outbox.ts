// Messages without an answer: kept in this browser until the server has stored and answered them, whatever happens to the
// connection, the page or the server. A retry uses the same idempotency key, so a message is stored once.
import { keep, kept } from "../../app/keep";

export type Sent = {
  key: string;
  session: string;
  agents: string[];
  text: string;
  /** Data URLs. Where they did not fit into what a browser keeps, only how many there were is left. */
  images: string[];
  lostImages?: number | undefined;
  at: string;
  state: "sending" | "lost" | "failed" | "stopped";
  why?: string | undefined;
  /** Its number, once the server has it. */
  seq?: number | undefined;
  /** The server has heard of it: it is in line there at least. */
  taken?: boolean | undefined;
};

const nameOf = (user: string) => `chatOutbox_${user}`;
const MOST = 3_000_000; // characters; browsers keep about five million for all of a site
/** The lists of users for whom this browser keeps nothing, or no more: this page alone has them. */
const unkept = new Map<string, Sent[]>();
/** The images of what waits, by its key: this page has also those that were too large to keep. */
const images = new Map<string, string[]>();

/** The waiting messages of a conversation, oldest first. */
export function waiting(user: string, session: string): Sent[] {
  return all(user)
    .filter((sent) => sent.session === session)
    .map((sent) =>
      images.has(sent.key) ? { ...sent, images: images.get(sent.key) ?? [], lostImages: undefined } : sent,
    );
}

/** Keep something, or what has become of it. */
export function put(user: string, sent: Sent): void {
  if (sent.images.length) images.set(sent.key, sent.images);
  save(user, [...all(user).filter((one) => one.key !== sent.key), sent]);
}

/** Remove a message that was answered or discarded. */
export function drop(user: string, gone: (sent: Sent) => boolean): void {
  const list = all(user);
  for (const sent of list) if (gone(sent)) images.delete(sent.key);
  save(
    user,
    list.filter((sent) => !gone(sent)),
  );
}

function all(user: string): Sent[] {
  const here = unkept.get(user);
  if (here) return here;
  try {
    const found = JSON.parse(kept(nameOf(user)) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return []; // what is no list was not written here
  }
}

function save(user: string, list: Sent[]): void {
  list.sort((a, b) => a.at.localeCompare(b.at));
  const text = list.length ? JSON.stringify(fitting(list)) : null;
  keep(nameOf(user), text);
  if (kept(nameOf(user)) === text) unkept.delete(user);
  else unkept.set(user, list);
}

/** A list as it fits into what a browser keeps: every word, and images, the oldest first, as long as there is room. */
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
