// Notes that stay current: loaded once, then updated by an event stream. After a disconnect, the stream resumes where it
// was, with increasing delays.
import { useCallback, useEffect, useRef, useState } from "react";
import { address, get, Problem, pause } from "../../../api/client";
import { events } from "../../../api/events";
import type { Note, NoteVersion } from "../../../api/index";

export type Text = Pick<Note, "text" | "version"> & { tokens?: number; at: string | null; by?: string };
/** What others did since somebody last looked: the text before it, and the last to change it. */
export type Change = { before: string; by: string; operation: string; at: string };
export type Live = {
  note: Text | undefined;
  error: unknown;
  /** Whether changes would be heard of at this moment. */
  hearing: boolean;
  change: Change | null;
  /** The change was seen. */
  seen: () => void;
  /** This page wrote the notes itself. */
  take: (note: Note) => void;
  reload: () => void;
};

/** The user and the agent that the notes belong to. */
export type NotesOwner = { user: string; agent: string };

const LONGEST = 30;
const textOf = (note: Note): Text => ({ ...note, at: note.updated_at });

export function useNotes(user: string, agent: string): Live {
  const [note, setNote] = useState<Text>();
  const [change, setChange] = useState<Change | null>(null);
  const [error, setError] = useState<unknown>();
  const [hearing, setHearing] = useState(false);
  const [round, setRound] = useState(0);
  const now = useRef<Text>(undefined);
  const show = useCallback((next: Text | undefined) => {
    now.current = next;
    setNote(next);
  }, []);
  const hear = useCallback(
    (told: NoteVersion) => {
      const before = now.current;
      if (!before || (told.version === before.version && told.text === before.text)) return;
      show({ text: told.text, version: told.version, at: told.created_at, by: told.source });
      const { source: by, operation, created_at: at } = told;
      setChange((earlier) => ({ before: earlier?.before ?? before.text, by, operation, at }));
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

    /** For as long as the page is shown; only what waiting does not mend ends it. */
    async function listen(signal: AbortSignal): Promise<void> {
      for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST)) {
        await looked(signal);
        try {
          const found = await get("/api/notes", { query: { user, agent }, signal });
          if (!now.current || found.version < now.current.version) show(textOf(found)); // first seen, or begun anew
          setHearing(true);
          setError(undefined);
          const after = now.current?.version ?? 0;
          const where = address("/api/notes/stream", {}, { user, agent, after });
          const how = { signal: whileLooked(signal), headers: { "Last-Event-ID": String(after) } };
          for await (const event of events(where, how)) {
            hear(event.data as NoteVersion);
            wait = 1;
          }
        } catch (failure) {
          const lasting = failure instanceof Problem && !failure.passing && failure.status < 500;
          if (signal.aborted || lasting || !now.current) throw failure;
        }
        if (document.hidden) continue;
        setHearing(false);
        await pause(wait * (0.75 + Math.random() / 2), signal);
      }
    }
  }, [user, agent, round, show, hear]);
  return {
    note,
    error,
    hearing,
    change,
    seen: () => setChange(null),
    take: (written) => {
      show(textOf(written));
      setChange(null);
    },
    reload: () => setRound((before) => before + 1),
  };
}

/** Wait until somebody looks: a browser has few connections to a server, and a tab that nobody sees needs none. */
function looked(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done, fail) => {
    document.addEventListener("visibilitychange", () => done(), { once: true, signal });
    signal.addEventListener("abort", () => fail(signal.reason));
  });
}

/** Called off as soon as nobody looks any more. */
function whileLooked(signal: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const both = AbortSignal.any([signal, hidden.signal]);
  document.addEventListener("visibilitychange", () => document.hidden && hidden.abort(), { signal: both });
  return both;
}
