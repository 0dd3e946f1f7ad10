// Add an entry to the journal (expires) or to the core (permanent).
import { type FormEvent, useState } from "react";
import type { Entry } from "../../api";
import { post } from "../../api/client";
import { useApp } from "../../app/context";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import css from "./agents.module.css";
import { characters, MAX_CHARACTERS } from "./editing";

type Props = { agent: string; close: () => void; added: (entry: Entry) => void };

/** Typed text that was not added; it is restored if the dialog was closed by mistake. */
const unsaved = new Map<string, string>();

export function AddEntry({ agent, close, added }: Props) {
  const { user, choosable } = useApp();
  const [text, setText] = useState(unsaved.get(agent) ?? "");
  const [kind, setKind] = useState<"journal" | "core">("journal");
  const [everybody, setEverybody] = useState(false);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const length = characters(text);
  const write = (value: string) => {
    setText(value);
    unsaved.set(agent, value);
  };
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const query = everybody ? { agent } : { user, agent };
      const entry = await post("/api/entries", { query, body: { content: text, kind } });
      unsaved.delete(agent);
      added(entry);
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Add a memory of ${agent}`} close={close}>
      <form onSubmit={save}>
        <Field
          label="Content"
          error={length > MAX_CHARACTERS ? `${length.toLocaleString("en")} characters; at most 10,000.` : null}
        >
          <textarea
            rows={5}
            value={text}
            onChange={(event) => write(event.target.value)}
            readOnly={busy}
            autoFocus
            required
          />
        </Field>
        <fieldset className={`${css.parts} ${css.choices}`}>
          <legend>Kind</legend>
          <label className="check">
            <input type="radio" name="kind" checked={kind === "journal"} onChange={() => setKind("journal")} />
            <span>
              Journal <span className="quiet">in the prompt for a week</span>
            </span>
          </label>
          <label className="check">
            <input type="radio" name="kind" checked={kind === "core"} onChange={() => setKind("core")} />
            <span>
              Core <span className="quiet">always in the prompt</span>
            </span>
          </label>
        </fieldset>
        {choosable && (
          <fieldset className={`${css.parts} ${css.choices}`}>
            <legend>Used with</legend>
            <label className="check">
              <input type="radio" name="whose" checked={!everybody} onChange={() => setEverybody(false)} />
              <span>only {user}</span>
            </label>
            <label className="check">
              <input type="radio" name="whose" checked={everybody} onChange={() => setEverybody(true)} />
              <span>all users</span>
            </label>
          </fieldset>
        )}
        {error ? <Failure error={error} retry={() => save()} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !length || length > MAX_CHARACTERS}>
            {busy ? "Adding…" : "Add"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
