// Create an agent: a name, and optional settings.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem, post } from "../../api/client";
import { go } from "../../app/route";
import { useWho } from "../../app/who";
import { Field } from "../../ui/Field";
import { Empty, Failure } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { say } from "../../ui/toast";
import { AgentForm } from "./AgentForm";
import css from "./agents.module.css";
import { BLANK } from "./draft";
import { place } from "./places";

export function NewAgent() {
  const { may } = useWho();
  useTitle("New agent");
  const [name, setName] = useState("");
  const [draft, setDraft] = useState(BLANK);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const taken = error instanceof Problem && error.status === 409;
  useEffect(() => {
    if (taken) field.current?.focus();
  }, [taken, error]);
  if (!may("write")) return <Empty title="This key may not create agents" />;
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const made = await post("/api/agents", { body: { name: name.trim(), ...draft } });
      say(`${made.name} is ready.`);
      go(place(made.name));
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <div className={`page ${css.agent}`}>
      <header>
        <h1>New agent</h1>
      </header>
      <form onSubmit={save}>
        <Field
          label="Name"
          hint="Any name. It cannot be changed later: the agent’s conversations and memory are kept under it."
          wrong={taken ? "An agent with this name already exists." : null}
        >
          <input
            ref={field}
            value={name}
            onChange={(event) => setName(event.target.value)}
            required
            autoFocus
            autoComplete="off"
          />
        </Field>
        <AgentForm name={name} draft={draft} change={setDraft} />
        {error && !taken ? <Failure error={error} retry={() => save()} /> : null}
        <footer className="actions">
          <button type="button" onClick={() => go("/agents")}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !name.trim()}>
            {busy ? "Creating…" : "Create agent"}
          </button>
        </footer>
      </form>
    </div>
  );
}
