// Forms to add a fact and to correct one. A correction keeps the old fact in the history.
import { type FormEvent, useId, useState } from "react";
import { post } from "../../../api/client";
import type { Fact } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Dialog } from "../../../ui/Dialog";
import { midnight } from "../../../ui/days";
import { Field } from "../../../ui/Field";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";
import { ABOUT_USER, MAX_CHARACTERS, TOPICS, type Topic } from "./fact";
import css from "./facts.module.css";

type AddProps = { subjects: readonly string[]; close: () => void; added: (fact: Fact) => void };

export function AddFact({ subjects, close, added }: AddProps) {
  const { user } = useApp();
  const [statement, setStatement] = useState("");
  const [subject, setSubject] = useState("");
  const [topic, setTopic] = useState<Topic>("other");
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    const body = {
      statement,
      subject: subject.trim() || ABOUT_USER,
      predicate: "",
      object: "",
      topic,
      confidence: 1,
      evidence: [],
      valid_from: midnight(from),
      valid_to: midnight(until),
    };
    added(await post("/api/facts", { query: { user }, body }));
    notify("Fact added.");
    close();
  });
  const names = useId();
  const isReversed = from !== "" && until !== "" && until <= from;
  return (
    <Dialog title="Add a fact" close={close} dirty={statement !== "" || subject !== ""}>
      <form onSubmit={submit}>
        <Statement value={statement} change={setStatement} busy={busy} hint="One sentence: “Clara lives in Lisbon.”" />
        <Field label="About" hint={`A person or thing. Leave it empty for a fact about ${user}.`}>
          <input value={subject} list={names} maxLength={200} onChange={(event) => setSubject(event.target.value)} />
        </Field>
        <datalist id={names}>
          {subjects.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <Field label="Topic">
          <select value={topic} onChange={(event) => setTopic(event.target.value as Topic)}>
            {Object.entries(TOPICS).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        <div className={css.period}>
          <Field label="True since (optional)">
            <input type="date" value={from} onChange={(event) => setFrom(event.target.value)} />
          </Field>
          <Field label="Until (optional)" error={isReversed ? "It must be later than the first date." : null}>
            <input type="date" value={until} onChange={(event) => setUntil(event.target.value)} />
          </Field>
        </div>
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || isReversed || !isSendable(statement)}>
            {busy ? "Adding…" : "Add"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

type CorrectProps = { fact: Fact; close: () => void; corrected: (newer: Fact) => void };

export function CorrectFact({ fact, close, corrected }: CorrectProps) {
  const { user } = useApp();
  const [statement, setStatement] = useState(fact.statement);
  const [since, setSince] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    const body = { statement, since: midnight(since), evidence: [] };
    corrected(await post("/api/facts/{id}/correct", { path: { id: fact.id }, query: { user }, body }));
    close();
  });
  const isSame = statement.trim() === fact.statement;
  return (
    <Dialog title="Correct a fact" close={close} dirty={!isSame}>
      <form onSubmit={submit}>
        <Statement value={statement} change={setStatement} busy={busy} hint="The old words stay in the history." />
        <Field
          label="Changed on (optional)"
          hint="The day from which the new statement is true. Leave it empty if the old one was never true."
        >
          <input type="date" value={since} onChange={(event) => setSince(event.target.value)} />
        </Field>
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || isSame || !isSendable(statement)}>
            {busy ? "Saving…" : "Save"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

type StatementProps = { value: string; change: (value: string) => void; busy: boolean; hint: string };

function Statement({ value, change, busy, hint }: StatementProps) {
  const length = [...value.trim()].length;
  const error = length > MAX_CHARACTERS ? `${length.toLocaleString("en")} characters; at most 1,000.` : null;
  return (
    <Field label="Fact" hint={hint} error={error}>
      <textarea
        rows={3}
        value={value}
        readOnly={busy}
        autoFocus
        required
        onChange={(event) => change(event.target.value)}
      />
    </Field>
  );
}

const isSendable = (statement: string) => statement.trim() !== "" && [...statement.trim()].length <= MAX_CHARACTERS;

/** Send a form once at a time; a failure keeps what was typed. */
function useSubmit(send: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      await send();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return { busy, error, submit };
}
