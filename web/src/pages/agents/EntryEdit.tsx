// Edit an entry in place; a concurrent change by someone else is shown beside it.
import type { KeyboardEvent } from "react";
import type { Entry } from "../../api";
import { Failure } from "../../ui/states";
import css from "./agents.module.css";
import { characters, type Edited, type Editing, MAX_CHARACTERS } from "./editing";

type Props = { entry: Entry; edited: Edited; editing: Editing; onSaved: (entry: Entry) => void };

export function EntryEdit({ entry, edited, editing, onSaved }: Props) {
  const length = characters(edited.text);
  const isInvalid = length === 0 || length > MAX_CHARACTERS;
  const { theirs } = edited;
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") editing.stop(entry.id);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !isInvalid) editing.save(entry);
  };
  const takeTheirs = () => {
    if (theirs) onSaved(theirs);
    editing.stop(entry.id);
  };
  return (
    <form
      className={css.entryEdit}
      onSubmit={(event) => {
        event.preventDefault();
        editing.save(entry);
      }}
    >
      <textarea
        aria-label="Content"
        rows={Math.min(12, Math.max(3, edited.text.split("\n").length + 1))}
        value={edited.text}
        onChange={(event) => editing.change(entry.id, event.target.value)}
        onKeyDown={keys}
        autoFocus
      />
      {theirs && (
        <div className={css.theirs} role="alert">
          <p>
            <b>Somebody else changed this entry in the meantime.</b> Their version:
          </p>
          <pre>{theirs.content}</pre>
          <div className="actions">
            <button type="button" onClick={takeTheirs}>
              Use theirs
            </button>
            <button type="button" className="primary" onClick={() => editing.save(entry, theirs.version)}>
              Overwrite with mine
            </button>
          </div>
        </div>
      )}
      {edited.error ? <Failure error={edited.error} retry={() => editing.save(entry)} /> : null}
      {!theirs && (
        <div className="actions">
          <span className={isInvalid ? "wrong" : "quiet"}>
            {length.toLocaleString("en")} of {MAX_CHARACTERS.toLocaleString("en")} characters
          </span>
          <button type="button" onClick={() => editing.stop(entry.id)}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={isInvalid || edited.busy}>
            {edited.busy ? "Saving…" : "Save"}
          </button>
        </div>
      )}
    </form>
  );
}
