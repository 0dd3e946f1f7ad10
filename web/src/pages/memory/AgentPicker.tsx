// Choose the agent whose memory is shown; memory is per agent and user. Without an agent in the address, it is the last used one.
import { type FormEvent, useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { agentInUse, keepAgent } from "../../app/agent";
import { useWho } from "../../app/who";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { useAsked } from "./asked";
import css from "./memory.module.css";

const USUAL = "assistant"; // who answers where no agent was chosen, set up or not
const OTHER = "\u0000other";

type Whose = {
  agent: string | undefined;
  names: string[];
  choose: (agent: string) => void;
  error: unknown;
  retry: () => void;
};

/** The agent whose memory is shown, and a way to choose it; undefined until that is known, or cannot be. */
export function useAgent(): Whose {
  const { here, user } = useWho();
  const { query, ask } = useAsked();
  const agents = useLoad(
    async (signal) => {
      const [all, last] = await Promise.all([
        get("/api/agents", { query: { limit: 500 }, signal }),
        get("/api/chat/sessions", { query: { user, spoken: true, limit: 1 }, signal }),
      ]);
      return { names: all.data.map((one) => one.name), last: last.data[0]?.agent };
    },
    [user],
  );
  const known = agents.data?.names ?? [];
  const bound = here.me?.agent ?? null;
  const settled = bound ?? query.get("agent") ?? agentInUse(user);
  const agent = settled ?? (agents.data && !agents.stale ? (agents.data.last ?? known[0] ?? USUAL) : undefined);
  const names = bound !== null ? [bound] : [...new Set([...known, USUAL, ...(agent ? [agent] : [])])];
  const choose = (name: string) => {
    keepAgent(user, name);
    ask({ agent: name, view: undefined, v: undefined, against: undefined });
  };
  return { agent, names, choose, error: agents.error, retry: agents.reload };
}

type Shown = { agent: string; names: string[]; choose: (agent: string) => void };

export function AgentPicker({ agent, names, choose }: Shown) {
  const { here } = useWho();
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
          {!here.me?.agent && <option value={OTHER}>Another name…</option>}
        </select>
      </label>
      {other && <Another choose={choose} close={() => setOther(false)} />}
    </>
  );
}

/** An agent that was never set up here can have notes all the same: programs name agents as they like. */
function Another({ choose, close }: { choose: (agent: string) => void; close: () => void }) {
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
            Show its memory
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
