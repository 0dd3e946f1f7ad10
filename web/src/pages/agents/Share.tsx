// Choose the agents that share a whiteboard.
import { type FormEvent, useState } from "react";
import { get, put } from "../../api/client";
import { useLoad } from "../../api/load";
import { useWho } from "../../app/who";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import { say } from "../../ui/toast";
import css from "./agents.module.css";
import { ASSISTANT } from "./places";

type Shown = {
  agent: string;
  /** None: a new one is made. */
  board?: string;
  members?: string[];
  close: () => void;
  shared: (board: string) => void;
};

export function Share({ agent, board, members, close, shared }: Shown) {
  const { user } = useWho();
  const [name, setName] = useState(board ?? "");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(members ?? [agent]));
  const [other, setOther] = useState("");
  const [named, setNamed] = useState<string[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const known = useLoad((signal) => get("/api/agents", { query: { limit: 1000 }, signal }), []);
  const all = new Set([
    agent,
    ASSISTANT,
    ...(members ?? []),
    ...(known.data?.data.map((one) => one.name) ?? []),
    ...named,
  ]);
  const before = new Set(members ?? [agent]);
  const dirty =
    name !== (board ?? "") || !!other || chosen.size !== before.size || ![...chosen].every((one) => before.has(one));
  const turn = (one: string) => {
    const next = new Set(chosen);
    if (!next.delete(one)) next.add(one);
    setChosen(next);
  };
  const addOther = () => {
    const one = other.trim();
    if (!one) return;
    setNamed([...named, one]);
    setChosen(new Set([...chosen, one]));
    setOther("");
  };
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const path = { board: name.trim() };
      await put("/api/entries/boards/{board}", { path, query: { user, agent }, body: { agents: [...chosen] } });
      say(chosen.size ? "Shared." : "No longer shared.");
      shared(name.trim());
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog title={board === undefined ? "New whiteboard" : `Who shares ${board}`} close={close} dirty={dirty}>
      <form onSubmit={save}>
        {board === undefined && (
          <Field label="Name" hint="Lines without a board go to “main”.">
            <input
              value={name}
              onChange={(event) => setName(event.target.value)}
              required
              autoFocus
              autoComplete="off"
            />
          </Field>
        )}
        <fieldset className={`${css.parts} ${css.choices}`}>
          <legend>Agents that share it</legend>
          {[...all].map((one) => (
            <label key={one} className="check">
              <input type="checkbox" checked={chosen.has(one)} onChange={() => turn(one)} /> {one}
            </label>
          ))}
        </fieldset>
        {known.error ? <Failure error={known.error} retry={known.reload} /> : null}
        <div className="toolbar">
          <input
            className={css.other}
            aria-label="Another agent"
            placeholder="Another agent"
            value={other}
            onChange={(event) => setOther(event.target.value)}
          />
          <button type="button" onClick={addOther} disabled={!other.trim()}>
            Add it
          </button>
        </div>
        {!chosen.has(agent) && (
          <p className="wrong" role="status">
            {agent} will see nothing of it any more, and only those who are on it can let it back.
          </p>
        )}
        {error ? <Failure error={error} retry={() => save()} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !name.trim()}>
            {busy ? "Saving…" : "Save"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
