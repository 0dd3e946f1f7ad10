// Confirm before removing an entry.
import { useState } from "react";
import type { Entry } from "../../api";
import { errorMessage, Problem, remove } from "../../api/client";
import { Confirm } from "../../ui/Dialog";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";

type Props = { entry: Entry; scope: Scope; close: () => void; onRemoved: (ids: ReadonlySet<string>) => void };

export function RemoveEntry({ entry, scope, close, onRemoved }: Props) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const confirmRemoval = async () => {
    setBusy(true);
    try {
      await remove("/api/entries/{id}", { path: { id: entry.id }, query: { ...scope, agent: entry.agent } });
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) {
        setError(errorMessage(error));
        setBusy(false);
        return;
      }
    }
    notify("Deleted.");
    onRemoved(new Set([entry.id]));
    close();
  };
  return (
    <Confirm title="Delete this entry?" yes="Delete" busy={busy} onConfirm={confirmRemoval} close={close}>
      <blockquote className={`${css.entryText} ${css.folded}`}>{entry.content}</blockquote>
      <p>It is deleted permanently from the memory of {entry.agent}.</p>
      {error && (
        <p className="wrong" role="alert">
          {error}
        </p>
      )}
    </Confirm>
  );
}
