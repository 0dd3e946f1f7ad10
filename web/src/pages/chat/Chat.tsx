// The chat page: the list of conversations beside the current one.
import { useEffect, useState, useSyncExternalStore } from "react";
import { get } from "../../api/client";
import type { Agent } from "../../api/index";
import { useLoad } from "../../api/load";
import { agentInUse } from "../../app/agent";
import { go, to, useRoute } from "../../app/route";
import { useWho } from "../../app/who";
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
import type { Sent } from "./outbox";
import { whoOf } from "./SessionItem";
import { Sessions } from "./Sessions";
import { begin, find, lastAgent, remember } from "./session";
import { type Talk, talkOf } from "./talk";
import { Welcome } from "./Welcome";

export default function Chat() {
  const { parts } = useRoute();
  const { user } = useWho();
  return parts[1] ? <Page agent={parts[1]} /> : <First key={user} />;
}

/** Go to the agent in use: the last one on this device, else the one of the newest conversation. */
function First() {
  const { user } = useWho();
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
  const { user, may } = useWho();
  const named = parts[2];
  const found = useLoad(
    async (signal) => ({ user, agent, id: named ?? (await find(user, agent, may("write"), signal)) }),
    [user, agent, named],
  );
  const agents = useAgents(user);
  const narrow = useMedia("(max-width: 62rem)");
  const [drawer, setDrawer] = useState(false);
  const there = found.data?.user === user && found.data.agent === agent ? found.data : undefined;
  const id = named ?? there?.id ?? null;
  const talk = id ? talkOf(user, id) : null;
  const session = useSyncExternalStore(talk?.subscribe ?? silent, () => talk?.session);
  const [failed, setFailed] = useState<unknown>();
  const start = async (names: string[]) => {
    const made = await begin(user, names);
    setFailed(undefined);
    go(to(["chat", names[0] as string, made]));
    setDrawer(false);
  };
  const who = session ? whoOf(session) : [agent];
  const another = () => start(who).catch(setFailed);
  useShortcut(() => may("write") && another());
  const real = session?.agent;
  const at = query.get("at") ?? undefined;
  useEffect(() => {
    if (named && real && real !== agent) go(to(["chat", real, named], { at }), true);
  }, [named, real, agent, at]);
  useTitle(session?.title || who.join(", "));
  const sessions = (
    <Sessions
      current={id}
      grown={`${id} ${session?.last_seq ?? 0}`}
      agent={agent}
      begin={another}
      chosen={() => setDrawer(false)}
      removed={(gone) => {
        if (gone !== id) return;
        go(to(["chat", agent]));
        found.reload();
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
          who={who}
          agents={agents}
          showSessions={narrow ? () => setDrawer(true) : undefined}
          begin={start}
        />
        {!!failed && <Failure error={failed} retry={another} />}
        {talk ? (
          <Open key={talk.id} talk={talk} who={who} agents={agents} named={!!named} follow={found.reload} />
        ) : found.error ? (
          <Failure error={found.error} retry={found.reload}>
            <Link href="/agents/new">Set up an agent</Link>
          </Failure>
        ) : there && !there.id ? (
          <Empty title="No messages yet">
            <p>Your key may read, but not write. Messages sent to {agent} elsewhere appear here.</p>
          </Empty>
        ) : (
          <Loading what="Finding your conversation" />
        )}
      </div>
    </div>
  );
}

type Shown = { talk: Talk; who: string[]; agents: Map<string, Agent>; named: boolean; follow: () => void };

/** A conversation that is gone on with. */
function Open({ talk, who, agents, named, follow }: Shown) {
  const { query } = useRoute();
  const { may, here } = useWho();
  useSyncExternalStore(talk.subscribe, () => talk.version);
  const [draft, change] = useDraft(talk.user, talk.id);
  const writing = draft.text.trim() !== "" || draft.images.length > 0;
  const { other, dismiss } = useElsewhere(talk, named, writing, follow);
  useEffect(() => {
    talk.open();
  }, [talk]);
  const send = (said: string, images: string[]) => talk.say(said, images, who);
  const empty = talk.session && talk.session.count === 0 && talk.sent.length === 0;
  const takeBack = (sent: Sent) =>
    change(({ text, images }) => ({
      text: text ? `${sent.text}\n${text}` : sent.text,
      images: [...new Set([...sent.images, ...images])],
    }));
  const wrong = !!talk.error && (
    <Failure error={talk.error} retry={() => talk.open()}>
      <Link href={to(["chat", lastAgent(talk.user)])}>Go to your current conversation</Link>
    </Failure>
  );
  if (wrong && !talk.session) return wrong;
  if (!talk.session) return <Loading what="Reading the conversation" />;
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
      {!talk.away && wrong}
      {here.model === null && <NoModel />}
      {talk.away && !talk.busy && (
        <p className={`card ${css.notice}`} role="status">
          The server is not responding. Your text is kept and sending is retried.
        </p>
      )}
      {empty ? (
        <Welcome agent={who.join(" and ")} say={(said) => send(said, [])} />
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
  const found = useLoad((signal) => get("/api/agents", { query: { user, limit: 1000 }, signal }), [user]);
  const [agents, setAgents] = useState(new Map<string, Agent>());
  useEffect(() => setAgents(new Map(found.data?.data.map((agent) => [agent.name, agent]))), [found.data]);
  return agents;
}

const silent = () => () => {};

function useMedia(asked: string): boolean {
  const media = matchMedia(asked);
  return useSyncExternalStore(
    (listener) => {
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => media.matches,
  );
}

/** Alt+N begins a new conversation. */
function useShortcut(act: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || event.code !== "KeyN") return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
}
