// Actions for selected entries: export or remove them.
import { useState } from "react";
import type { Entry } from "../../api";
import { post, told } from "../../api/client";
import { useWho } from "../../app/who";
import { Confirm } from "../../ui/Dialog";
import { count } from "../../ui/time";
import { say } from "../../ui/toast";
import css from "./agents.module.css";
import { downloadJson } from "./download";
import type { Scope } from "./editing";
import { inParts, type Picked } from "./picking";

type Shown = {
  scope: Scope;
  picked: Picked<Entry>;
  loaded: number;
  /** Whether there may be more that match than are loaded. */
  more: boolean;
  pickLoaded: () => void;
  pickMatching: () => Promise<void>;
  clear: () => void;
  removed: (ids: ReadonlySet<string>) => void;
};

const AT_ONCE = 500;
const entries = (amount: number) => `${count(amount)} ${amount === 1 ? "entry" : "entries"}`;

export function Bulk({ scope, picked, loaded, more, pickLoaded, pickMatching, clear, removed }: Shown) {
  const { may } = useWho();
  const [asking, setAsking] = useState(false);
  const [gathering, setGathering] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const gather = async () => {
    setGathering(true);
    setWrong(undefined);
    await pickMatching().catch((error) => setWrong(told(error)));
    setGathering(false);
  };
  return (
    <section className={css.bulk} aria-label="Picked entries">
      <b role="status">{count(picked.size)} selected</b>
      {picked.size < loaded && (
        <button type="button" className="link" onClick={pickLoaded}>
          Select the {count(loaded)} loaded
        </button>
      )}
      {more && (
        <button type="button" className="link" onClick={gather} disabled={gathering}>
          {gathering ? "Selecting…" : "Select all that match"}
        </button>
      )}
      {wrong && (
        <span className="wrong" role="alert">
          {wrong}
        </span>
      )}
      <span className={css.space} />
      <button type="button" onClick={() => downloadJson(scope.agent, "picked", [...picked.values()])}>
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
      {asking && <Removing scope={scope} picked={picked} close={() => setAsking(false)} removed={removed} />}
    </section>
  );
}

function Removing({
  scope,
  picked,
  close,
  removed,
}: Pick<Shown, "scope" | "picked" | "removed"> & { close: () => void }) {
  const [done, setDone] = useState<number>();
  const [wrong, setWrong] = useState<string>();
  const act = async () => {
    const gone = new Set<string>();
    setWrong(undefined);
    try {
      for (const ids of inParts([...picked.keys()], AT_ONCE)) {
        setDone(gone.size);
        await post("/api/entries/remove", { query: scope, body: { ids } });
        for (const id of ids) gone.add(id);
      }
      say(`${entries(gone.size)} deleted.`);
      close();
    } catch (error) {
      setWrong(told(error));
      setDone(undefined);
    }
    removed(gone);
  };
  return (
    <Confirm
      title={`Delete ${entries(picked.size)}?`}
      yes={done === undefined ? "Delete" : `Deleting, ${count(done)} so far…`}
      busy={done !== undefined}
      act={act}
      close={close}
    >
      <p>{scope.agent} forgets them for good, and with them what was proposed to be made of them.</p>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </Confirm>
  );
}
