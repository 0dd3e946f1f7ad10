// Uploads to knowledge: two at a time, each with progress, result or error, and a retry. They belong to the app, not to a
// page, so they continue while the user navigates.
import { useSyncExternalStore } from "react";
import { address, get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { upload } from "../../../api/upload";
import type { Dropped } from "./dropped";

export type Outcome = "added" | "replaced" | "unchanged";
export type Upload = Dropped & {
  id: number;
  /** Whose it becomes; undefined for everybody. */
  user: string | undefined;
  key: string;
  state: "waiting" | "sending" | "reading" | "done" | "failed";
  /** How much was sent, from 0 to 1. */
  part: number;
  error?: unknown;
  outcome?: Outcome;
  document?: Document;
};

const AT_ONCE = 2;
let all: readonly Upload[] = [];
let last = 0;
let finished = 0;
const running = new Map<number, AbortController>();
const heard = new Set<() => void>();

const set = (uploads: readonly Upload[]) => {
  all = uploads;
  for (const listener of heard) listener();
};
const change = (id: number, what: Partial<Upload>) =>
  set(all.map((one) => (one.id === id ? { ...one, ...what } : one)));

const hear = (listener: () => void) => {
  heard.add(listener);
  return () => heard.delete(listener);
};
/** All that are on their way, or were. */
export const useUploads = () => useSyncExternalStore(hear, () => all);
/** How many have come in so far, also those that are forgotten by now. */
export const useFinished = () => useSyncExternalStore(hear, () => finished);

export function add(files: Dropped[], user: string | undefined): void {
  const made = files.map((one): Upload => {
    return { ...one, id: ++last, user, key: crypto.randomUUID(), state: "waiting", part: 0 };
  });
  set([...all, ...made]);
  next();
}

export function retry(id: number): void {
  change(id, { state: "waiting", error: undefined });
  next();
}

/** Call one off, or forget what became of it. */
export function drop(id: number): void {
  running.get(id)?.abort(new DOMException("Cancelled.", "AbortError"));
  set(all.filter((one) => one.id !== id));
}

export const dropDone = () => set(all.filter((one) => one.state !== "done"));

function next(): void {
  for (const one of all) {
    if (running.size >= AT_ONCE) return;
    if (one.state === "waiting" && !running.has(one.id)) run(one);
  }
}

async function run(one: Upload): Promise<void> {
  const stop = new AbortController();
  running.set(one.id, stop);
  change(one.id, { state: "sending", part: 0 });
  try {
    const there = await existing(one, stop.signal);
    const progress = (part: number) => change(one.id, { part, state: part < 1 ? "sending" : "reading" });
    const where = address("/api/knowledge", {}, { user: one.user, path: one.path });
    const document = await upload<Document>(where, one.file, { key: one.key, signal: stop.signal, progress });
    finished++;
    change(one.id, { state: "done", part: 1, document, outcome: outcomeOf(there, document) });
  } catch (error) {
    if (!stop.signal.aborted) change(one.id, { state: "failed", error });
  } finally {
    running.delete(one.id);
    next();
  }
}

/** The document that has this path already, and will be replaced. */
async function existing(one: Upload, signal: AbortSignal): Promise<Document | undefined> {
  const found = await get("/api/knowledge", { query: { user: one.user, prefix: one.path, limit: 50 }, signal });
  return found.data.find((document) => document.path === one.path && document.user === (one.user ?? null));
}

function outcomeOf(there: Document | undefined, now: Document): Outcome {
  if (!there) return "added";
  return there.updated_at === now.updated_at ? "unchanged" : "replaced";
}
