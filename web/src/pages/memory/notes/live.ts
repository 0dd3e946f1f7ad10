// Notes that stay current: loaded once, then updated by an event stream. After a disconnect, the stream resumes where it
// was, with increasing delays.
import { useCallback, useEffect, useRef, useState } from "react";
import { address, get, Problem, pause } from "../../../api/client";
import { events } from "../../../api/events";
import type { Note, NoteVersion } from "../../../api/index";

export type Text = Pick<Note, "text" | "version"> & { tokens?: number; at: string | null; by?: string };
/** Changes by others since the user last looked: the text before, and the last author. */
export type Change = { before: string; by: string; operation: string; at: string };
export type Live = {
  note: Text | undefined;
  error: unknown;
  /** True while the event stream is connected. */
  hearing: boolean;
  change: Change | null;
  /** Mark the change as seen. */
  markSeen: () => void;
  /** Show the notes that this page has just saved. */
  apply: (note: Note) => void;
  reload: () => void;
};

/** The user and the agent that the notes belong to. */
export type NotesOwner = { user: string; agent: string };

const MAX_PAUSE_SECONDS = 30;
const textOf = (note: Note): Text => ({ ...note, at: note.updated_at });

export function useNotes(user: string, agent: string): Live {
  const [note, setNote] = useState<Text>();
  const [change, setChange] = useState<Change | null>(null);
  const [error, setError] = useState<unknown>();
  const [hearing, setHearing] = useState(false);
  const [reloads, setReloads] = useState(0);
  const now = useRef<Text>(undefined);
  const show = useCallback((next: Text | undefined) => {
    now.current = next;
    setNote(next);
  }, []);
  const applyChange = useCallback(
    (version: NoteVersion) => {
      const previous = now.current;
      if (!previous || (version.version === previous.version && version.text === previous.text)) return;
      show({ text: version.text, version: version.version, at: version.created_at, by: version.source });
      const { source: by, operation, created_at: at } = version;
      setChange((earlier) => ({ before: earlier?.before ?? previous.text, by, operation, at }));
    },
    [show],
  );
  useEffect(() => {
    const stop = new AbortController();
    show(undefined);
    setChange(null);
    setError(undefined);
    listen(stop.signal).catch((failure) => {
      if (stop.signal.aborted) return;
      setHearing(false);
      setError(failure);
    });
    return () => stop.abort();

    /** Run while the page is open; only a permanent error ends it. */
    async function listen(signal: AbortSignal): Promise<void> {
      for (let wait = 1; ; wait = Math.min(wait * 2, MAX_PAUSE_SECONDS)) {
        await untilVisible(signal);
        try {
          const stored = await get("/api/notes", { query: { user, agent }, signal });
          if (!now.current || stored.version < now.current.version) show(textOf(stored)); // first load, or the notes were cleared
          setHearing(true);
          setError(undefined);
          const after = now.current?.version ?? 0;
          const url = address("/api/notes/stream", {}, { user, agent, after });
          const init = { signal: whileVisible(signal), headers: { "Last-Event-ID": String(after) } };
          for await (const event of events(url, init)) {
            applyChange(event.data as NoteVersion);
            wait = 1;
          }
        } catch (failure) {
          const isPermanent = failure instanceof Problem && !failure.temporary && failure.status < 500;
          if (signal.aborted || isPermanent || !now.current) throw failure;
        }
        if (document.hidden) continue;
        setHearing(false);
        await pause(wait * (0.75 + Math.random() / 2), signal);
      }
    }
  }, [user, agent, reloads, show, applyChange]);
  return {
    note,
    error,
    hearing,
    change,
    markSeen: () => setChange(null),
    apply: (written) => {
      show(textOf(written));
      setChange(null);
    },
    reload: () => setReloads((previous) => previous + 1),
  };
}

/** Wait until the tab is visible: browsers limit connections per server, and a hidden tab needs none. */
function untilVisible(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done, fail) => {
    document.addEventListener("visibilitychange", () => done(), { once: true, signal });
    signal.addEventListener("abort", () => fail(signal.reason));
  });
}

/** A signal that is aborted when the tab is hidden. */
function whileVisible(signal: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const combined = AbortSignal.any([signal, hidden.signal]);
  document.addEventListener("visibilitychange", () => document.hidden && hidden.abort(), { signal: combined });
  return combined;
}
