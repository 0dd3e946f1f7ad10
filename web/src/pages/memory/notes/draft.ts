// Unsaved notes with the version they are based on, stored in this browser until they are saved or discarded.
import { readStored, store } from "../../../app/storage";

export type Draft = { text: string; base: { text: string; version: number } };

export const storageKey = (user: string, agent: string) => `notesDraft_${user}_${agent}`;

export function draftOf(user: string, agent: string): Draft | null {
  try {
    const stored = JSON.parse(readStored(storageKey(user, agent)) ?? "null");
    return typeof stored?.text === "string" && typeof stored.base?.version === "number" ? stored : null;
  } catch {
    return null;
  }
}

export function keepDraft(user: string, agent: string, draft: Draft | null): void {
  store(storageKey(user, agent), draft && JSON.stringify(draft));
}
