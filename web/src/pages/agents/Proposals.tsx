// Proposals for journal entries that expire soon, each beside its source entries, to accept or refuse.
import { type FormEvent, useState } from "react";
import type { Consolidation } from "../../api";
import { get, post } from "../../api/client";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { Segments } from "../../ui/Segments";
import { Empty, Failure, Loading } from "../../ui/states";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import { Proposal } from "./Proposal";

type Status = Consolidation["status"];
const SHOWN: [Status, string][] = [
  ["proposed", "Waiting"],
  ["accepted", "Accepted"],
  ["refused", "Refused"],
  ["undone", "Undone"],
  ["passed", "Skipped"],
];
const NONE: Record<Status, string> = {
  proposed: "Nothing is proposed",
  accepted: "Nothing was accepted yet",
  refused: "Nothing was refused yet",
  undone: "Nothing was undone",
  passed: "Nothing was skipped",
};

export function Proposals({ agent, changed }: { agent: string; changed: () => void }) {
  const { user, may } = useApp();
  const [status, setStatus] = useState<Status>("proposed");
  const list = usePages<Consolidation>(
    (after, signal) => get("/api/consolidations", { query: { user, agent, status, limit: 20, after }, signal }),
    [user, agent, status],
  );
  const shown = list.items.filter((item) => item.status === status || item.decided_at);
  const onDecided = (now: Consolidation) => {
    list.edit((items) => items.map((item) => (item.id === now.id ? now : item)));
    changed();
  };
  return (
    <>
      <p className="quiet">
        Journal entries leave the prompt after a week. A proposal sums up in one sentence what is worth keeping.
        Accepting it adds a core entry; the journal does not change.
      </p>
      {may("write") && (
        <LookForm
          agent={agent}
          onFound={() => {
            setStatus("proposed");
            list.reload();
            changed();
          }}
        />
      )}
      <Segments label="Which proposals" choices={SHOWN} chosen={status} choose={setStatus} />
      <ul className={css.proposals} aria-label="Proposals">
        {shown.map((item) => (
          <li key={item.id}>
            <Proposal proposal={item} scope={{ user, agent }} onDecided={onDecided} />
          </li>
        ))}
      </ul>
      {!list.loading && !list.error && shown.length === 0 && (
        <Empty title={NONE[status]}>
          {status === "proposed" && (
            <p>
              Look for proposals above when the journal has entries that are some days old, or set consolidate to let
              the server look for them.
            </p>
          )}
        </Empty>
      )}
      {list.error ? <Failure error={list.error} retry={list.retry} /> : null}
      {list.loading && !list.items.length && <Loading label="Loading proposals" />}
      {list.hasMore && !list.loading && (
        <button type="button" onClick={list.more}>
          More
        </button>
      )}
    </>
  );
}

/** The form that starts a consolidation of the journal now. */
function LookForm({ agent, onFound }: { agent: string; onFound: () => void }) {
  const { user, server } = useApp();
  const [days, setDays] = useState(5);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const created = await post("/api/consolidations", { query: { user, agent }, body: { days } });
      notify(created.length ? `${created.length} new.` : "Nothing new to propose. Each entry is considered only once.");
      onFound();
    } catch (failed) {
      setError(failed);
      onFound(); // proposals made before the failure are stored
    }
    setBusy(false);
  };
  return (
    <form className={`card ${css.look}`} onSubmit={submit}>
      <label>
        Entries older than{" "}
        <input
          type="number"
          min={0}
          max={13}
          step={1}
          value={days}
          onChange={(event) => setDays(Number(event.target.value))}
        />{" "}
        days
      </label>
      <button type="submit" className="primary" disabled={busy}>
        {busy ? "Looking…" : "Look for proposals now"}
      </button>
      <span className="quiet">
        {server.model
          ? `${server.model} reads them; this costs one model call.`
          : "Without a model, a rule looks for topics that occur often."}
      </span>
      {error ? <Failure error={error} retry={() => submit()} /> : null}
    </form>
  );
}
