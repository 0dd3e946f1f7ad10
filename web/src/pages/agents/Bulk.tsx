// Actions for selected entries: export or remove them.
import { useState } from "react";
import type { Entry } from "../../api";
import { errorMessage, post } from "../../api/client";
import { useApp } from "../../app/context";
import { Confirm } from "../../ui/Dialog";
import { count } from "../../ui/time";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import { downloadJson } from "./download";
import type { Scope } from "./editing";
import { inParts, type Selection } from "./picking";

type Props = {
  scope: Scope;
  selection: Selection<Entry>;
  loaded: number;
  /** True if more entries match than are loaded. */
  more: boolean;
  pickLoaded: () => void;
  pickMatching: () => Promise<void>;
  clear: () => void;
  removed: (ids: ReadonlySet<string>) => void;
};

const BATCH_SIZE = 500;
const entries = (amount: number) => `${count(amount)} ${amount === 1 ? "entry" : "entries"}`;

export function Bulk({ scope, selection, loaded, more, pickLoaded, pickMatching, clear, removed }: Props) {
  const { may } = useApp();
  const [asking, setAsking] = useState(false);
  const [gathering, setGathering] = useState(false);
  const [error, setError] = useState<string>();
  const gather = async () => {
    setGathering(true);
    setError(undefined);
    await pickMatching().catch((error) => setError(errorMessage(error)));
    setGathering(false);
  };
  return (
    <section className={css.bulk} aria-label="Selected entries">
      <b role="status">{count(selection.size)} selected</b>
      {selection.size < loaded && (
        <button type="button" className="link" onClick={pickLoaded}>
          Select the {count(loaded)} loaded
        </button>
      )}
      {more && (
        <button type="button" className="link" onClick={gather} disabled={gathering}>
          {gathering ? "Selecting…" : "Select all that match"}
        </button>
      )}
      {error && (
        <span className="wrong" role="alert">
          {error}
        </span>
      )}
      <span className={css.space} />
      <button type="button" onClick={() => downloadJson(scope.agent, "selection", [...selection.values()])}>
        Export
      </button>
      {may("delete") && (
        <button type="button" className="danger" onClick={() => setAsking(true)}>
          Delete
        </button>
      )}
      <button type="button" onClick={clear}>
        Clear
      </button>
      {asking && <RemoveDialog scope={scope} selection={selection} close={() => setAsking(false)} removed={removed} />}
    </section>
  );
}

function RemoveDialog({
  scope,
  selection,
  close,
  removed,
}: Pick<Props, "scope" | "selection" | "removed"> & { close: () => void }) {
  const [done, setDone] = useState<number>();
  const [error, setError] = useState<string>();
  const confirmRemoval = async () => {
    const removedIds = new Set<string>();
    setError(undefined);
    try {
      for (const ids of inParts([...selection.keys()], BATCH_SIZE)) {
        setDone(removedIds.size);
        await post("/api/entries/remove", { query: scope, body: { ids } });
        for (const id of ids) removedIds.add(id);
      }
      notify(`${entries(removedIds.size)} deleted.`);
      close();
    } catch (error) {
      setError(errorMessage(error));
      setDone(undefined);
    }
    removed(removedIds);
  };
  return (
    <Confirm
      title={`Delete ${entries(selection.size)}?`}
      yes={done === undefined ? "Delete" : `Deleting, ${count(done)} so far…`}
      busy={done !== undefined}
      onConfirm={confirmRemoval}
      close={close}
    >
      <p>The entries of {scope.agent}, and proposals based on them, are deleted permanently.</p>
      {error && (
        <p className="wrong" role="alert">
          {error}
        </p>
      )}
    </Confirm>
  );
}
