// Choose the agents that share a whiteboard.
import { type FormEvent, useState } from "react";
import { get, put } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import { ASSISTANT } from "./places";

type Props = {
  agent: string;
  /** Undefined to create a new whiteboard. */
  board?: string;
  members?: string[];
  close: () => void;
  shared: (board: string) => void;
};

export function Share({ agent, board, members, close, shared }: Props) {
  const { user } = useApp();
  const [name, setName] = useState(board ?? "");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(members ?? [agent]));
  const [other, setOther] = useState("");
  const [extraNames, setExtraNames] = useState<string[]>([]);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const agents = useLoad((signal) => get("/api/agents", { query: { limit: 1000 }, signal }), []);
  const names = new Set([
    agent,
    ASSISTANT,
    ...(members ?? []),
    ...(agents.data?.data.map((item) => item.name) ?? []),
    ...extraNames,
  ]);
  const current = new Set(members ?? [agent]);
  const dirty =
    name !== (board ?? "") ||
    !!other ||
    chosen.size !== current.size ||
    ![...chosen].every((member) => current.has(member));
  const turn = (member: string) => {
    const next = new Set(chosen);
    if (!next.delete(member)) next.add(member);
    setChosen(next);
  };
  const addOther = () => {
    const added = other.trim();
    if (!added) return;
    setExtraNames([...extraNames, added]);
    setChosen(new Set([...chosen, added]));
    setOther("");
  };
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const path = { board: name.trim() };
      await put("/api/entries/boards/{board}", { path, query: { user, agent }, body: { agents: [...chosen] } });
      notify(chosen.size ? "Shared." : "No longer shared.");
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
          {[...names].map((member) => (
            <label key={member} className="check">
              <input type="checkbox" checked={chosen.has(member)} onChange={() => turn(member)} /> {member}
            </label>
          ))}
        </fieldset>
        {agents.error ? <Failure error={agents.error} retry={agents.reload} /> : null}
        <div className="toolbar">
          <input
            className={css.other}
            aria-label="Another agent"
            placeholder="Another agent"
            value={other}
            onChange={(event) => setOther(event.target.value)}
          />
          <button type="button" onClick={addOther} disabled={!other.trim()}>
            Add
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
