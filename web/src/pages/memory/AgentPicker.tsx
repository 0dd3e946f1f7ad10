// Choose the agent whose memory is shown; memory is per agent and user. Without an agent in the address, it is the last used one.
import { type FormEvent, useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { agentInUse, storeAgent } from "../../app/agent";
import { useApp } from "../../app/context";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import css from "./memory.module.css";
import { usePageState } from "./pageState";

const USUAL = "assistant"; // the agent that answers if none is chosen; it need not be configured
const OTHER = "\u0000other";

type OwnerProps = {
  agent: string | undefined;
  names: string[];
  choose: (agent: string) => void;
  error: unknown;
  retry: () => void;
};

/** The agent whose memory is shown, and a control to choose it; undefined while it is unknown. */
export function useAgent(): OwnerProps {
  const { server, user } = useApp();
  const { query, change } = usePageState();
  const agents = useLoad(
    async (signal) => {
      const [agentPage, last] = await Promise.all([
        get("/api/agents", { query: { limit: 500 }, signal }),
        get("/api/chat/sessions", { query: { user, spoken: true, limit: 1 }, signal }),
      ]);
      return { names: agentPage.data.map((item) => item.name), last: last.data[0]?.agent };
    },
    [user],
  );
  const agentNames = agents.data?.names ?? [];
  const bound = server.me?.agent ?? null;
  const selected = bound ?? query.get("agent") ?? agentInUse(user);
  const agent = selected ?? (agents.data && !agents.stale ? (agents.data.last ?? agentNames[0] ?? USUAL) : undefined);
  const names = bound !== null ? [bound] : [...new Set([...agentNames, USUAL, ...(agent ? [agent] : [])])];
  const choose = (name: string) => {
    storeAgent(user, name);
    change({ agent: name, view: undefined, v: undefined, against: undefined });
  };
  return { agent, names, choose, error: agents.error, retry: agents.reload };
}

type Props = { agent: string; names: string[]; choose: (agent: string) => void };

export function AgentPicker({ agent, names, choose }: Props) {
  const { server } = useApp();
  const [other, setOther] = useState(false);
  return (
    <>
      <label className={css.picker}>
        <span>Agent</span>
        <select
          value={agent}
          onChange={(event) => (event.target.value === OTHER ? setOther(true) : choose(event.target.value))}
        >
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
          {!server.me?.agent && <option value={OTHER}>Another name…</option>}
        </select>
      </label>
      {other && <OtherAgent choose={choose} close={() => setOther(false)} />}
    </>
  );
}

/** Enter any agent's name: programs can use agents that are not configured here. */
function OtherAgent({ choose, close }: { choose: (agent: string) => void; close: () => void }) {
  const [name, setName] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) choose(name.trim());
    close();
  };
  return (
    <Dialog title="Another agent" close={close}>
      <form onSubmit={submit}>
        <Field label="Name" hint="The name that your program uses for the agent.">
          <input value={name} onChange={(event) => setName(event.target.value)} autoFocus />
        </Field>
        <footer className="actions">
          <button type="submit" className="primary">
            Show memory
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
