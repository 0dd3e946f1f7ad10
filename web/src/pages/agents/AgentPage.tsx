// One agent: settings, private memory, proposals and whiteboards, each with its own address.
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to } from "../../app/route";
import { AgentMark } from "../../ui/AgentMark";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Tabs } from "../../ui/Tabs";
import { useTitle } from "../../ui/title";
import { findAgent } from "./agent";
import css from "./agents.module.css";
import { Boards } from "./Boards";
import { Entries } from "./Entries";
import { Proposals } from "./Proposals";
import { agentPath, TABS, type Tab } from "./places";
import { Settings } from "./Settings";

const LABELS: Record<Tab, string> = {
  settings: "Settings",
  memory: "Entries",
  proposals: "Proposals",
  whiteboard: "Whiteboard",
};

export function AgentPage({ name, tab }: { name: string; tab: Tab }) {
  const { user } = useApp();
  useTitle(`${name}: ${LABELS[tab]}`);
  const agent = useLoad((signal) => findAgent(name, signal), [name]);
  const waiting = useLoad(
    (signal) => get("/api/consolidations", { query: { user, agent: name, status: "proposed", limit: 100 }, signal }),
    [name, user],
  );
  const proposalCount = waiting.data?.next ? `${waiting.data.data.length}+` : waiting.data?.data.length;
  return (
    <div className={tab === "memory" ? `page ${css.agent} ${css.fills}` : `page ${css.agent}`}>
      <header>
        <Link href="/agents" className={css.back} aria-label="All agents">
          <Icon name="back" />
        </Link>
        <AgentMark name={name} color={agent.data?.color} icon={agent.data?.icon} />
        <h1>{name}</h1>
        <button type="button" className={css.agentAct} onClick={() => go(to(["chat", name]))}>
          <Icon name="chat" /> Chat
        </button>
      </header>
      <Tabs
        label={`Pages of ${name}`}
        tabs={TABS.map((tabName) => ({
          href: agentPath(name, tabName),
          label: LABELS[tabName],
          current: tabName === tab,
          badge: tabName === "proposals" ? proposalCount : undefined,
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
          <Loading label="Loading the agent" />
        ))}
    </div>
  );
}
