// The header of a conversation: its participants and actions.
import { useState } from "react";
import type { Agent } from "../../api/index";
import { go, to } from "../../app/route";
import { useWho } from "../../app/who";
import { AgentMark } from "../../ui/AgentMark";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Failure } from "../../ui/states";
import css from "./chat.module.css";
import { Summaries } from "./Summary";
import type { Talk } from "./talk";

// No agent is called so: names have no such character.
const [GROUP, ANOTHER] = ["\0group", "\0another"];

type Shown = {
  talk: Talk | null;
  agent: string;
  who: string[];
  agents: Map<string, Agent>;
  showSessions: (() => void) | undefined;
  begin: (agents: string[]) => Promise<void>;
};

export function Head({ talk, agent, who, agents, showSessions, begin }: Shown) {
  const { may } = useWho();
  const [choosing, setChoosing] = useState(false);
  const [summaries, setSummaries] = useState(false);
  const names = [...new Set([agent, "assistant", ...agents.keys()])].sort((a, b) => a.localeCompare(b));
  const choose = (name: string) => {
    if (name === ANOTHER) go("/agents/new");
    else if (name === GROUP) setChoosing(true);
    else go(to(["chat", name]));
  };
  return (
    <header className={css.head}>
      {showSessions && (
        <button type="button" className="icon" aria-label="Conversations" onClick={showSessions}>
          <Icon name="menu" />
        </button>
      )}
      {who.map((name) => (
        <AgentMark key={name} name={name} color={agents.get(name)?.color} icon={agents.get(name)?.icon} />
      ))}
      <h1>{talk?.session?.title || who.join(", ")}</h1>
      <select aria-label="Agent" value={agent} onChange={(event) => choose(event.target.value)}>
        {names.map((name) => (
          <option key={name} value={name}>
            {[agents.get(name)?.icon, name].filter(Boolean).join(" ")}
          </option>
        ))}
        {agents.size > 1 && may("write") && <option value={GROUP}>A group…</option>}
        {may("write") && <option value={ANOTHER}>New agent…</option>}
      </select>
      {talk && (talk.session?.count ?? 0) > 2 && (
        <button type="button" onClick={() => setSummaries(true)}>
          Summary
        </button>
      )}
      {talk && summaries && <Summaries talk={talk} close={() => setSummaries(false)} />}
      {choosing && <Group names={names} agents={agents} begin={begin} close={() => setChoosing(false)} />}
    </header>
  );
}

type Choice = {
  names: string[];
  agents: Map<string, Agent>;
  begin: (agents: string[]) => Promise<void>;
  close: () => void;
};

/** Choose several agents: each answers in turn, in this order, and hears those before it. */
function Group({ names, agents, begin, close }: Choice) {
  const [chosen, setChosen] = useState<string[]>([]);
  const [failed, setFailed] = useState<unknown>();
  const act = () => begin(chosen).then(close, setFailed);
  const toggle = (name: string) =>
    setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  return (
    <Dialog title="A group conversation" close={close}>
      <p>Each agent answers in turn and sees the earlier answers. Their private memories stay their own.</p>
      <fieldset className={css.group}>
        <legend>Who takes part</legend>
        {names.map((name) => (
          <label key={name} className="check">
            <input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} />
            <AgentMark name={name} color={agents.get(name)?.color} icon={agents.get(name)?.icon} /> {name}
            {chosen.includes(name) && <span className="quiet">answers {ordinal(chosen.indexOf(name))}</span>}
          </label>
        ))}
      </fieldset>
      {!!failed && <Failure error={failed} retry={act} />}
      <footer className="actions">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="button" className="primary" disabled={chosen.length < 2 || chosen.length > 16} onClick={act}>
          Begin
        </button>
      </footer>
    </Dialog>
  );
}

const ordinal = (place: number) => ["first", "second", "third"][place] ?? `${place + 1}th`;
