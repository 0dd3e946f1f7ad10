// Uploads of documents: two at a time, each with progress, result or error, and a retry. They belong to the app, not to a
// page, so they continue while the user navigates.
import { useSyncExternalStore } from "react";
import { address, get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { upload } from "../../../api/upload";
import type { ChosenFile } from "./dropped";

export type Outcome = "added" | "replaced" | "unchanged";
export type Upload = ChosenFile & {
  id: number;
  /** The user who owns the document; undefined for the whole tenant. */
  user: string | undefined;
  key: string;
  state: "waiting" | "sending" | "reading" | "done" | "failed";
  /** The fraction sent, from 0 to 1. */
  part: number;
  error?: unknown;
  outcome?: Outcome;
  document?: Document;
};

const MAX_PARALLEL = 2;
let uploadList: readonly Upload[] = [];
let last = 0;
let finishedCount = 0;
const running = new Map<number, AbortController>();
const listeners = new Set<() => void>();

const set = (uploads: readonly Upload[]) => {
  uploadList = uploads;
  for (const listener of listeners) listener();
};
const change = (id: number, changes: Partial<Upload>) =>
  set(uploadList.map((item) => (item.id === id ? { ...item, ...changes } : item)));

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};
/** All uploads, including finished ones. */
export const useUploads = () => useSyncExternalStore(subscribe, () => uploadList);
/** The number of finished uploads, including removed ones. */
export const useFinished = () => useSyncExternalStore(subscribe, () => finishedCount);

export function add(files: ChosenFile[], user: string | undefined): void {
  const added = files.map((chosen): Upload => {
    return { ...chosen, id: ++last, user, key: crypto.randomUUID(), state: "waiting", part: 0 };
  });
  set([...uploadList, ...added]);
  next();
}

export function retry(id: number): void {
  change(id, { state: "waiting", error: undefined });
  next();
}

/** Cancel an upload, or remove a finished one from the list. */
export function removeUpload(id: number): void {
  running.get(id)?.abort(new DOMException("Cancelled.", "AbortError"));
  set(uploadList.filter((item) => item.id !== id));
}

export const dropDone = () => set(uploadList.filter((item) => item.state !== "done"));

function next(): void {
  for (const item of uploadList) {
    if (running.size >= MAX_PARALLEL) return;
    if (item.state === "waiting" && !running.has(item.id)) run(item);
  }
}

async function run(item: Upload): Promise<void> {
  const stop = new AbortController();
  running.set(item.id, stop);
  change(item.id, { state: "sending", part: 0 });
  try {
    const stored = await existing(item, stop.signal);
    const progress = (part: number) => change(item.id, { part, state: part < 1 ? "sending" : "reading" });
    const url = address("/api/documents", {}, { user: item.user, path: item.path });
    const document = await upload<Document>(url, item.file, { key: item.key, signal: stop.signal, progress });
    finishedCount++;
    change(item.id, { state: "done", part: 1, document, outcome: outcomeOf(stored, document) });
  } catch (error) {
    if (!stop.signal.aborted) change(item.id, { state: "failed", error });
  } finally {
    running.delete(item.id);
    next();
  }
}

/** The existing document with this path, which will be replaced. */
async function existing(item: Upload, signal: AbortSignal): Promise<Document | undefined> {
  const page = await get("/api/documents", { query: { user: item.user, prefix: item.path, limit: 50 }, signal });
  return page.data.find((document) => document.path === item.path && document.user === (item.user ?? null));
}

function outcomeOf(stored: Document | undefined, now: Document): Outcome {
  if (!stored) return "added";
  return stored.updated_at === now.updated_at ? "unchanged" : "replaced";
}
