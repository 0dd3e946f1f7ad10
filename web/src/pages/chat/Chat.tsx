// The chat page: the list of conversations beside the current one.
import { useEffect, useState, useSyncExternalStore } from "react";
import { get } from "../../api/client";
import type { Agent } from "../../api/index";
import { useLoad } from "../../api/load";
import { agentInUse } from "../../app/agent";
import { useApp } from "../../app/context";
import { go, to, useRoute } from "../../app/route";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { Composer } from "./Composer";
import { Conversation } from "./Conversation";
import css from "./chat.module.css";
import { useDraft } from "./draft";
import { useElsewhere } from "./elsewhere";
import { Head } from "./Head";
import { NoModel } from "./NoModel";
import type { OutgoingMessage } from "./outbox";
import { agentsOf } from "./SessionItem";
import { Sessions } from "./Sessions";
import { createSession, find, lastAgent, remember } from "./session";
import { type Talk, talkOf } from "./talk";
import { Welcome } from "./Welcome";

export default function Chat() {
  const { parts } = useRoute();
  const { user } = useApp();
  return parts[1] ? <Page agent={parts[1]} /> : <First key={user} />;
}

/** Go to the current agent: the last one used on this device, or else the agent of the newest conversation. */
function First() {
  const { user } = useApp();
  const used = agentInUse(user);
  const newest = useLoad(
    async (signal) => {
      if (used) return used;
      const { data } = await get("/api/chat/sessions", { query: { user, spoken: true, limit: 1 }, signal });
      return data[0]?.agent ?? lastAgent(user);
    },
    [user, used],
  );
  useEffect(() => {
    if (newest.data) go(to(["chat", newest.data]), true);
  }, [newest.data]);
  return newest.error ? <Failure error={newest.error} retry={newest.reload} /> : <Loading />;
}

function Page({ agent }: { agent: string }) {
  const { parts, query } = useRoute();
  const { user, may } = useApp();
  const sessionId = parts[2];
  const active = useLoad(
    async (signal) => ({ user, agent, id: sessionId ?? (await find(user, agent, may("write"), signal)) }),
    [user, agent, sessionId],
  );
  const agents = useAgents(user);
  const narrow = useMedia("(max-width: 62rem)");
  const [drawer, setDrawer] = useState(false);
  const current = active.data?.user === user && active.data.agent === agent ? active.data : undefined;
  const id = sessionId ?? current?.id ?? null;
  const talk = id ? talkOf(user, id) : null;
  const session = useSyncExternalStore(talk?.subscribe ?? silent, () => talk?.session);
  const [failed, setFailed] = useState<unknown>();
  const start = async (names: string[]) => {
    const newId = await createSession(user, names);
    setFailed(undefined);
    go(to(["chat", names[0] as string, newId]));
    setDrawer(false);
  };
  const members = session ? agentsOf(session) : [agent];
  const startAnother = () => start(members).catch(setFailed);
  useShortcut(() => may("write") && startAnother());
  const real = session?.agent;
  const at = query.get("at") ?? undefined;
  useEffect(() => {
    if (sessionId && real && real !== agent) go(to(["chat", real, sessionId], { at }), true);
  }, [sessionId, real, agent, at]);
  useTitle(session?.title || members.join(", "));
  const sessions = (
    <Sessions
      current={id}
      grown={`${id} ${session?.last_seq ?? 0}`}
      agent={agent}
      startNew={startAnother}
      onChosen={() => setDrawer(false)}
      removed={(removedId) => {
        if (removedId !== id) return;
        go(to(["chat", agent]));
        active.reload();
      }}
    />
  );
  return (
    <div className={narrow ? `${css.chat} ${css.narrow}` : css.chat}>
      {!narrow && sessions}
      {narrow && drawer && (
        <Dialog title="Conversations" close={() => setDrawer(false)}>
          {sessions}
        </Dialog>
      )}
      <div className={css.talk}>
        <Head
          talk={talk}
          agent={real ?? agent}
          members={members}
          agents={agents}
          showSessions={narrow ? () => setDrawer(true) : undefined}
          startWith={start}
        />
        {!!failed && <Failure error={failed} retry={startAnother} />}
        {talk ? (
          <Open
            key={talk.id}
            talk={talk}
            members={members}
            agents={agents}
            isNamed={!!sessionId}
            follow={active.reload}
          />
        ) : active.error ? (
          <Failure error={active.error} retry={active.reload}>
            <Link href="/agents/new">Set up an agent</Link>
          </Failure>
        ) : current && !current.id ? (
          <Empty title="No messages yet">
            <p>Your key may read, but not write. Messages sent to {agent} elsewhere appear here.</p>
          </Empty>
        ) : (
          <Loading label="Loading your conversation" />
        )}
      </div>
    </div>
  );
}

type Props = { talk: Talk; members: string[]; agents: Map<string, Agent>; isNamed: boolean; follow: () => void };

/** The open conversation. */
function Open({ talk, members, agents, isNamed, follow }: Props) {
  const { query } = useRoute();
  const { may, server } = useApp();
  useSyncExternalStore(talk.subscribe, () => talk.version);
  const [draft, change] = useDraft(talk.user, talk.id);
  const writing = draft.text.trim() !== "" || draft.images.length > 0;
  const { other, dismiss } = useElsewhere(talk, isNamed, writing, follow);
  useEffect(() => {
    talk.open();
  }, [talk]);
  const send = (text: string, images: string[]) => talk.say(text, images, members);
  const empty = talk.session && talk.session.count === 0 && talk.outbox.length === 0;
  const takeBack = (outgoing: OutgoingMessage) =>
    change(({ text, images }) => ({
      text: text ? `${outgoing.text}\n${text}` : outgoing.text,
      images: [...new Set([...outgoing.images, ...images])],
    }));
  const failure = !!talk.error && (
    <Failure error={talk.error} retry={() => talk.open()}>
      <Link href={to(["chat", lastAgent(talk.user)])}>Go to your current conversation</Link>
    </Failure>
  );
  if (failure && !talk.session) return failure;
  if (!talk.session) return <Loading label="Loading the conversation" />;
  return (
    <>
      {other && (
        <div className={`card ${css.notice}`} role="alert">
          <p>You continued another conversation in another window or on another device.</p>
          <button
            type="button"
            onClick={() => {
              dismiss();
              go(to(["chat", talk.session?.agent ?? "assistant"]));
              follow();
            }}
          >
            Go there
          </button>
          <button
            type="button"
            className="plain"
            onClick={() => {
              remember(talk.user, talk.session?.agent ?? "assistant", talk.id);
              dismiss();
            }}
          >
            Stay here
          </button>
        </div>
      )}
      {!talk.unreachable && failure}
      {server.model === null && <NoModel />}
      {talk.unreachable && !talk.busy && (
        <p className={`card ${css.notice}`} role="status">
          The server is not responding. Your text is kept and sending is retried.
        </p>
      )}
      {empty ? (
        <Welcome agent={members.join(" and ")} say={(text) => send(text, [])} />
      ) : (
        <Conversation talk={talk} agents={agents} at={Number(query.get("at")) || 0} takeBack={takeBack} />
      )}
      {may("write") && may("read") ? (
        <Composer talk={talk} draft={draft} change={change} send={send} />
      ) : (
        <p className={`quiet ${css.readonly}`}>Your key allows reading only: you cannot send messages.</p>
      )}
      <p className="visually-hidden" role="status">
        {talk.announced}
      </p>
    </>
  );
}

function useAgents(user: string): Map<string, Agent> {
  const list = useLoad((signal) => get("/api/agents", { query: { user, limit: 1000 }, signal }), [user]);
  const [agents, setAgents] = useState(new Map<string, Agent>());
  useEffect(() => setAgents(new Map(list.data?.data.map((agent) => [agent.name, agent]))), [list.data]);
  return agents;
}

const silent = () => () => {};

function useMedia(query: string): boolean {
  const media = matchMedia(query);
  return useSyncExternalStore(
    (listener) => {
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => media.matches,
  );
}

/** Start a new conversation with Alt+N. */
function useShortcut(callback: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || event.code !== "KeyN") return;
      event.preventDefault();
      callback();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
}
