// The header of a conversation: its participants and actions.
import { useState } from "react";
import type { Agent } from "../../api/index";
import { useApp } from "../../app/context";
import { go, to } from "../../app/route";
import { AgentMark } from "../../ui/AgentMark";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Failure } from "../../ui/states";
import css from "./chat.module.css";
import { Summaries } from "./Summary";
import type { Talk } from "./talk";

// No agent can have this name, because names cannot contain this character.
const [GROUP, ANOTHER] = ["\0group", "\0another"];

type Props = {
  talk: Talk | null;
  agent: string;
  members: string[];
  agents: Map<string, Agent>;
  showSessions: (() => void) | undefined;
  startWith: (agents: string[]) => Promise<void>;
};

export function Head({ talk, agent, members, agents, showSessions, startWith }: Props) {
  const { may } = useApp();
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
      {members.map((name) => (
        <AgentMark key={name} name={name} color={agents.get(name)?.color} icon={agents.get(name)?.icon} />
      ))}
      <h1>{talk?.session?.title || members.join(", ")}</h1>
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
      {choosing && <Group names={names} agents={agents} startWith={startWith} close={() => setChoosing(false)} />}
    </header>
  );
}

type Choice = {
  names: string[];
  agents: Map<string, Agent>;
  startWith: (agents: string[]) => Promise<void>;
  close: () => void;
};

/** Choose several agents: they answer in this order, and each sees the answers before its own. */
function Group({ names, agents, startWith, close }: Choice) {
  const [chosen, setChosen] = useState<string[]>([]);
  const [failed, setFailed] = useState<unknown>();
  const submit = () => startWith(chosen).then(close, setFailed);
  const toggle = (name: string) =>
    setChosen(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]);
  return (
    <Dialog title="A group conversation" close={close}>
      <p>Each agent answers in turn and sees the earlier answers. Their private memories stay separate.</p>
      <fieldset className={css.group}>
        <legend>Participants</legend>
        {names.map((name) => (
          <label key={name} className="check">
            <input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} />
            <AgentMark name={name} color={agents.get(name)?.color} icon={agents.get(name)?.icon} /> {name}
            {chosen.includes(name) && <span className="quiet">answers {ordinal(chosen.indexOf(name))}</span>}
          </label>
        ))}
      </fieldset>
      {!!failed && <Failure error={failed} retry={submit} />}
      <footer className="actions">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="button" className="primary" disabled={chosen.length < 2 || chosen.length > 16} onClick={submit}>
          Begin
        </button>
      </footer>
    </Dialog>
  );
}

const ordinal = (index: number) => ["first", "second", "third"][index] ?? `${index + 1}th`;
