// One agent: its settings, its private memory, what is proposed for it, and its whiteboards, each with an address.
import { useState } from "react";
import type { Agent } from "../../api";
import { get, Problem, remove, told } from "../../api/client";
import { useLoad } from "../../api/load";
import { go, to } from "../../app/route";
import { useWho } from "../../app/who";
import { AgentMark } from "../../ui/AgentMark";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Tabs } from "../../ui/Tabs";
import { useTitle } from "../../ui/title";
import { say } from "../../ui/toast";
import { Boards } from "./Boards";
import { Entries } from "./Entries";
import { Proposals } from "./Proposals";
import { place, TABS, type Tab } from "./places";
import { Settings } from "./Settings";

const LABELS: Record<Tab, string> = {
  settings: "Settings",
  memory: "Memory",
  proposals: "Proposals",
  whiteboard: "Whiteboard",
};

export function AgentPage({ name, tab }: { name: string; tab: Tab }) {
  const { may, user } = useWho();
  const [removing, setRemoving] = useState(false);
  useTitle(`${name}: ${LABELS[tab]}`);
  const agent = useLoad<Agent | null>(
    (signal) =>
      get("/api/agents/{name}", { path: { name }, signal }).catch((error) => {
        if (error instanceof Problem && error.status === 404) return null; // it need not be set up to have a memory
        throw error;
      }),
    [name],
  );
  const waiting = useLoad(
    (signal) => get("/api/consolidations", { query: { user, agent: name, status: "proposed", limit: 100 }, signal }),
    [name, user],
  );
  const badge = (one: Tab) => (one === "proposals" ? waiting.data?.data.length : undefined);
  return (
    <div className={tab === "memory" ? "page agent fills" : "page agent"}>
      <header>
        <Link href="/agents" className="back" aria-label="All agents">
          <Icon name="back" />
        </Link>
        <AgentMark name={name} color={agent.data?.color} icon={agent.data?.icon} />
        <h1>{name}</h1>
        <button type="button" className="agent-act" onClick={() => go(to(["chat", name]))}>
          <Icon name="chat" /> Chat with it
        </button>
        {tab === "settings" && agent.data && may("delete") && (
          <button type="button" className="agent-act danger" onClick={() => setRemoving(true)}>
            <Icon name="remove" /> Remove
          </button>
        )}
      </header>
      <Tabs
        label={`Pages of ${name}`}
        tabs={TABS.map((one) => ({
          href: place(name, one),
          label: LABELS[one],
          here: one === tab,
          badge: badge(one),
        }))}
      />
      {tab === "memory" && <Entries agent={name} />}
      {tab === "proposals" && <Proposals agent={name} changed={waiting.reload} />}
      {tab === "whiteboard" && <Boards agent={name} />}
      {tab === "settings" &&
        (agent.data !== undefined ? (
          <Settings name={name} agent={agent.data} saved={agent.set} />
        ) : agent.error ? (
          <Failure error={agent.error} retry={agent.reload} />
        ) : (
          <Loading what="Loading the agent" />
        ))}
      {removing && <Removing name={name} close={() => setRemoving(false)} />}
    </div>
  );
}

function Removing({ name, close }: { name: string; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const act = async () => {
    setBusy(true);
    try {
      await remove("/api/agents/{name}", { path: { name } });
      say(`${name} is no longer set up.`);
      go("/agents");
    } catch (error) {
      setWrong(told(error));
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${name}?`} yes="Remove" busy={busy} act={act} close={close}>
      <p>
        Its settings are forgotten: prompt, model, tools, colour and icon. Its conversations and its memory stay, and
        come back if an agent of this name is made again.
      </p>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </Confirm>
  );
}
