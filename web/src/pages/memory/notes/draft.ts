// Unsaved notes with the version they are based on, stored in this browser until they are saved or discarded.
import { keep, kept } from "../../../app/keep";

export type Draft = { text: string; base: { text: string; version: number } };

export const placeOf = (user: string, agent: string) => `notesDraft_${user}_${agent}`;

export function draftOf(user: string, agent: string): Draft | null {
  try {
    const found = JSON.parse(kept(placeOf(user, agent)) ?? "null");
    return typeof found?.text === "string" && typeof found.base?.version === "number" ? found : null;
  } catch {
    return null;
  }
}

export function keepDraft(user: string, agent: string, draft: Draft | null): void {
  keep(placeOf(user, agent), draft && JSON.stringify(draft));
}
