// All agents with their settings and memory counts. Data that costs a request is loaded only for visible cards.
import { useEffect, useRef, useState } from "react";
import type { Agent } from "../../api";
import { get } from "../../api/client";
import { useLoad, usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to } from "../../app/route";
import { AgentMark } from "../../ui/AgentMark";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { useTitle } from "../../ui/title";
import css from "./agents.module.css";
import { ASSISTANT, agentPath } from "./places";

type ListedAgent = Pick<Agent, "name" | "model" | "color" | "icon" | "prompt"> & { missing?: boolean };

export function AgentList() {
  const { may } = useApp();
  useTitle("Agents");
  const agents = usePages<ListedAgent>(
    (after, signal) => get("/api/agents", { query: { limit: 100, after }, signal }),
    [],
  );
  const implicit: ListedAgent = { name: ASSISTANT, model: "", color: "", icon: "", prompt: "", missing: true };
  const started = !agents.loading || agents.items.length > 0;
  const hasAssistant = agents.items.some((agent) => agent.name === ASSISTANT) || agents.hasMore;
  const shown = hasAssistant || !started ? agents.items : [implicit, ...agents.items];
  return (
    <div className="page">
      <header>
        <h1>Agents</h1>
        {may("write") && (
          <button type="button" className="primary" onClick={() => go("/agents/new")}>
            <Icon name="plus" /> New agent
          </button>
        )}
      </header>
      <p className="quiet">Each agent has its own instructions, and a private memory that no other agent sees.</p>
      <ul className={css.agentCards} aria-label="Agents">
        {shown.map((agent) => (
          <Card key={agent.name} agent={agent} />
        ))}
      </ul>
      {agents.error ? <Failure error={agents.error} retry={agents.retry} /> : null}
      {agents.loading && <Loading label="Loading agents" />}
      {agents.hasMore && !agents.loading && (
        <button type="button" onClick={agents.more}>
          More agents
        </button>
      )}
    </div>
  );
}

function Card({ agent }: { agent: ListedAgent }) {
  const { server } = useApp();
  const [ref, isVisible] = useVisible();
  const main = server.model ? `main model (${server.model})` : "main model";
  return (
    <li ref={ref} className={`card ${css.agentCard}`}>
      <AgentMark {...agent} large />
      <div>
        <h2>
          <Link className={css.agentName} href={agentPath(agent.name, agent.missing ? "settings" : "memory")}>
            {agent.name}
          </Link>
        </h2>
        <p className="quiet">
          {agent.missing && <span className="chip">default agent</span>} {agent.model || main}
        </p>
        {agent.prompt && <p className={css.agentPrompt}>{agent.prompt}</p>}
        {isVisible ? <Facts name={agent.name} /> : <p className="quiet">&nbsp;</p>}
        <p className={css.agentLinks}>
          <Link href={to(["chat", agent.name])} aria-label={`Chat with ${agent.name}`}>
            Chat
          </Link>
          <Link href={agentPath(agent.name, "memory")} aria-label={`Entries of ${agent.name}`}>
            Entries
          </Link>
          <Link href={agentPath(agent.name)} aria-label={`Settings of ${agent.name}`}>
            Settings
          </Link>
        </p>
      </div>
    </li>
  );
}

/** The number of memories, and the time of the last conversation. */
function Facts({ name }: { name: string }) {
  const { user } = useApp();
  const facts = useLoad(
    async (signal) => {
      const query = { user, agent: name };
      const [counts, last] = await Promise.all([
        get("/api/entries/counts", { query, signal }),
        get("/api/sessions", { query: { ...query, limit: 1 }, signal }),
      ]);
      return { counts, used: last.data[0]?.updated_at };
    },
    [name, user],
  );
  if (facts.error) return <Failure error={facts.error} retry={facts.reload} />;
  if (!facts.data) return <p className="quiet">&nbsp;</p>;
  const { counts, used } = facts.data;
  return (
    <p className="quiet">
      {count(counts.core ?? 0)} core · {count(counts.journal ?? 0)} journal
      {used && (
        <>
          {" · used "}
          <Time at={used} />
        </>
      )}
      {!!counts.pending && <span className="chip warn">{count(counts.pending)} waiting for review</span>}
    </p>
  );
}

/** True once an element has been visible. */
function useVisible(): [React.RefObject<HTMLLIElement | null>, boolean] {
  const ref = useRef<HTMLLIElement>(null);
  const [isVisible, setIsVisible] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setIsVisible(true);
    });
    if (ref.current) watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, isVisible];
}
