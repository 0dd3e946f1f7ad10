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
  /** Save the text, by default over the version that editing started from. */
  save: (entry: Entry, over?: number) => Promise<void>;
};

/** The number of characters as the server counts them: code points. */
export const characters = (text: string): number => [...text.trim()].length;
export const MAX_CHARACTERS = 10_000;

/** The open edits after a save. Text typed during the save stays, based on the new version. */
export function afterSave(edits: Record<string, Edited>, savedText: string, stored: Entry): Record<string, Edited> {
  const { [stored.id]: edit, ...rest } = edits;
  if (!edit || edit.text === savedText) return rest;
  return { ...rest, [stored.id]: { text: edit.text, version: stored.version, busy: false } };
}

export function useEditing(user: string | undefined, saved: (entry: Entry) => void): Editing {
  const [edits, setEdits] = useState<Record<string, Edited>>({});
  const update = (id: string, part: Partial<Edited>) =>
    setEdits((previous) => (previous[id] ? { ...previous, [id]: { ...previous[id], ...part } } : previous));
  const stop = (id: string) => setEdits(({ [id]: _, ...rest }) => rest);
  const save = async (entry: Entry, over?: number) => {
    const edit = edits[entry.id];
    if (!edit) return;
    const query = { user, agent: entry.agent }; // a whiteboard line belongs to its author
    update(entry.id, { busy: true, error: undefined });
    try {
      const options = { path: { id: entry.id }, query, body: { content: edit.text }, ifMatch: over ?? edit.version };
      const stored = await patch("/api/entries/{id}", options);
      saved(stored);
      setEdits((previous) => afterSave(previous, edit.text, stored));
    } catch (error) {
      if (error instanceof Problem && (error.status === 412 || error.status === 409)) {
        const theirs = await get("/api/entries/{id}", { path: { id: entry.id }, query }).catch(() => undefined);
        update(entry.id, { busy: false, theirs, error: theirs ? undefined : error });
      } else update(entry.id, { busy: false, error });
    }
  };
  return {
    of: (id) => edits[id],
    start: (entry) =>
      setEdits((previous) => ({
        ...previous,
        [entry.id]: { text: entry.content, version: entry.version, busy: false },
      })),
    change: (id, text) => update(id, { text }),
    stop,
    save,
  };
}
