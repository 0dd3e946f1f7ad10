// Edit the notes: the text, a preview beside it, and concurrent changes by others. Every change is saved as a draft in this
// browser.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { get, Problem, put } from "../../../api/client";
import { Confirm } from "../../../ui/Dialog";
import { Markdown } from "../../../ui/Markdown";
import { useMounted } from "../../../ui/mounted";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";
import css from "../memory.module.css";
import { type Draft, draftOf, keepDraft, storageKey } from "./draft";
import type { Live, NotesOwner, Text } from "./live";
import { Merge } from "./Merge";
import { compare, conflicts, merged } from "./threeway";
import { sourceName } from "./words";

type Props = { owner: NotesOwner; live: Live; note: Text; close: () => void };

export function Editor({ owner, live, note, close }: Props) {
  const { user, agent } = owner;
  const [draft, setDraft] = useState<Draft>(() => draftOf(user, agent) ?? { text: note.text, base: note });
  const [error, setError] = useState<unknown>();
  const [saving, setSaving] = useState(false);
  const [asking, setAsking] = useState<"merge" | "discard">();
  const { text, base } = draft;
  const mounted = useMounted();
  const typed = useRef(text); // the latest text, also for a save that started earlier
  typed.current = text;
  const stale = note.version !== base.version && !saving;
  const change = (written: string, from: Draft["base"] = base) => {
    const next = { text: written, base: { text: from.text, version: from.version } };
    setDraft(next);
    keepDraft(user, agent, written === from.text ? null : next);
  };
  useEffect(() => {
    // Another window saved its text and removed the stored draft: store this one again.
    const onStorage = (event: StorageEvent) => {
      if (event.key === storageKey(user, agent) && !event.newValue && text !== base.text) keepDraft(user, agent, draft);
    };
    addEventListener("storage", onStorage);
    return () => removeEventListener("storage", onStorage);
  }, [draft, user, agent, text, base.text]);
  const requestClose = () => {
    keepDraft(user, agent, null);
    close();
  };
  const takeTheirs = () => {
    const chunks = compare(base.text, text, note.text);
    if (conflicts(chunks)) return setAsking("merge");
    change(merged(chunks), note);
    notify("Merged: your text now contains both changes. Save it when you are ready.");
  };
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    if (saving || stale) return;
    setSaving(true);
    setError(undefined);
    try {
      const written = await put("/api/notes", { query: owner, body: { text, if_version: base.version } });
      live.apply(written);
      notify(
        written.version === base.version ? "Nothing to save: no changes." : `Saved as version ${written.version}.`,
      );
      if (!mounted.current) return typed.current === text && keepDraft(user, agent, null);
      if (typed.current === text) return requestClose();
      change(typed.current, written);
    } catch (failure) {
      const changed = failure instanceof Problem && (failure.status === 409 || failure.status === 412);
      if (changed) await get("/api/notes", { query: owner }).then(live.apply, setError);
      else setError(failure);
    }
    setSaving(false);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    save();
  };
  return (
    <form className={css.editor} onSubmit={save} onKeyDown={keys}>
      <div role="status">{stale && <ConflictNotice note={note} merge={takeTheirs} />}</div>
      {error ? <Failure error={error} retry={() => save()} /> : null}
      <div className={css.halves}>
        <div className="field">
          <label htmlFor="notes-text">Notes, as Markdown</label>
          <textarea
            id="notes-text"
            value={text}
            onChange={(event) => change(event.target.value)}
            spellCheck
            autoFocus
            rows={20}
          />
        </div>
        <section className={css.preview} aria-label="Preview">
          <h2>Preview</h2>
          <div className="card">{text.trim() ? <Markdown text={text} /> : <p className="quiet">Nothing yet.</p>}</div>
        </section>
      </div>
      <footer className="actions">
        <p className={`quiet ${css.grow}`}>Ctrl+S saves. Unsaved text is kept in this browser.</p>
        <button type="button" onClick={() => (text === base.text ? requestClose() : setAsking("discard"))}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={saving || stale}>
          {saving ? "Saving…" : "Save"}
        </button>
      </footer>
      {asking === "merge" && (
        <Merge
          base={base.text}
          mine={text}
          theirs={note.text}
          close={() => setAsking(undefined)}
          done={(mergedText) => {
            change(mergedText, note);
            setAsking(undefined);
          }}
        />
      )}
      {asking === "discard" && (
        <Confirm
          title="Discard your changes?"
          yes="Discard"
          onConfirm={requestClose}
          close={() => setAsking(undefined)}
        >
          <p>The saved notes, version {note.version}, stay unchanged.</p>
        </Confirm>
      )}
    </form>
  );
}

function ConflictNotice({ note, merge }: { note: Text; merge: () => void }) {
  return (
    <div className={`${css.notice} warn`}>
      <p>
        <b>{note.by ? `Changed by ${sourceName(note.by)}` : "Changed elsewhere"} while you were editing.</b> It is at
        version {note.version} now. Yours is untouched: put both together, then save.
      </p>
      <button type="button" onClick={merge}>
        Merge
      </button>
    </div>
  );
}
