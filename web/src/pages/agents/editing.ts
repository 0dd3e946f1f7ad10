// Entries that are being edited in place. The text lives here, not in the row, because rows unmount while scrolling.
import { useState } from "react";
import type { Entry } from "../../api";
import { get, Problem, patch } from "../../api/client";

export type Scope = { user?: string; agent: string };
export type Edited = { text: string; version: number; busy: boolean; error?: unknown; theirs?: Entry };
export type Editing = {
  of: (id: string) => Edited | undefined;
  start: (entry: Entry) => void;
  change: (id: string, text: string) => void;
  stop: (id: string) => void;
  /** Save it, by default over the version that was begun with. */
  save: (entry: Entry, over?: number) => Promise<void>;
};

/** The same characters as the server counts: not units of the encoding. */
export const characters = (text: string): number => [...text.trim()].length;
export const MOST_CHARACTERS = 10_000;

/** What is still being edited once a text was saved: what somebody wrote on meanwhile stays, from the new version. */
export function settled(all: Record<string, Edited>, sent: string, now: Entry): Record<string, Edited> {
  const { [now.id]: mine, ...rest } = all;
  if (!mine || mine.text === sent) return rest;
  return { ...rest, [now.id]: { text: mine.text, version: now.version, busy: false } };
}

export function useEditing(user: string | undefined, saved: (entry: Entry) => void): Editing {
  const [all, setAll] = useState<Record<string, Edited>>({});
  const put = (id: string, part: Partial<Edited>) =>
    setAll((before) => (before[id] ? { ...before, [id]: { ...before[id], ...part } } : before));
  const stop = (id: string) => setAll(({ [id]: _, ...rest }) => rest);
  const save = async (entry: Entry, over?: number) => {
    const mine = all[entry.id];
    if (!mine) return;
    const query = { user, agent: entry.agent }; // a line on a board is its author's
    put(entry.id, { busy: true, error: undefined });
    try {
      const said = { path: { id: entry.id }, query, body: { content: mine.text }, ifMatch: over ?? mine.version };
      const now = await patch("/api/entries/{id}", said);
      saved(now);
      setAll((before) => settled(before, mine.text, now));
    } catch (error) {
      if (error instanceof Problem && (error.status === 412 || error.status === 409)) {
        const theirs = await get("/api/entries/{id}", { path: { id: entry.id }, query }).catch(() => undefined);
        put(entry.id, { busy: false, theirs, error: theirs ? undefined : error });
      } else put(entry.id, { busy: false, error });
    }
  };
  return {
    of: (id) => all[id],
    start: (entry) =>
      setAll((before) => ({
        ...before,
        [entry.id]: { text: entry.content, version: entry.version, busy: false },
      })),
    change: (id, text) => put(id, { text }),
    stop,
    save,
  };
}
