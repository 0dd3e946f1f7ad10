// Create an agent: a name, and optional settings.
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem, post } from "../../api/client";
import { useApp } from "../../app/context";
import { go } from "../../app/route";
import { Field } from "../../ui/Field";
import { Empty, Failure } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { notify } from "../../ui/toast";
import { AgentForm } from "./AgentForm";
import css from "./agents.module.css";
import { BLANK } from "./draft";
import { agentPath } from "./places";

export function NewAgent() {
  const { may } = useApp();
  useTitle("New agent");
  const [name, setName] = useState("");
  const [draft, setDraft] = useState(BLANK);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const nameTaken = error instanceof Problem && error.status === 409;
  useEffect(() => {
    if (nameTaken) field.current?.focus();
  }, [nameTaken, error]);
  if (!may("write")) return <Empty title="This key may not create agents" />;
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const created = await post("/api/agents", { body: { name: name.trim(), ...draft } });
      notify(`${created.name} is ready.`);
      go(agentPath(created.name));
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
          hint="Any name. It cannot be changed later, because conversations and memory are stored under it."
          error={nameTaken ? "An agent with this name already exists." : null}
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
        {error && !nameTaken ? <Failure error={error} retry={() => save()} /> : null}
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
