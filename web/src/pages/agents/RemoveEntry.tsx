// Confirm before removing an entry.
import { useState } from "react";
import type { Entry } from "../../api";
import { Problem, remove, told } from "../../api/client";
import { Confirm } from "../../ui/Dialog";
import { say } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";

type Shown = { entry: Entry; scope: Scope; close: () => void; gone: (ids: ReadonlySet<string>) => void };

export function RemoveEntry({ entry, scope, close, gone }: Shown) {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const act = async () => {
    setBusy(true);
    try {
      await remove("/api/entries/{id}", { path: { id: entry.id }, query: { ...scope, agent: entry.agent } });
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) {
        setWrong(told(error));
        setBusy(false);
        return;
      }
    }
    say("Deleted.");
    gone(new Set([entry.id]));
    close();
  };
  return (
    <Confirm title="Delete this entry?" yes="Delete" busy={busy} act={act} close={close}>
      <blockquote className={`${css.entryText} ${css.folded}`}>{entry.content}</blockquote>
      <p>{entry.agent} forgets it for good.</p>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </Confirm>
  );
}
