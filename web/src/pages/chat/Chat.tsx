// The page on which one talks: the conversations beside the one that goes on.
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { get, told } from "../../api/client";
import type { Agent } from "../../api/index";
import { useLoad } from "../../api/load";
import { go, to, useRoute } from "../../app/route";
import { useWho } from "../../app/who";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { say } from "../../ui/toast";
import { Composer, useDraft } from "./Composer";
import { Conversation } from "./Conversation";
import { useElsewhere } from "./elsewhere";
import { Head } from "./Head";
import { whoOf } from "./SessionItem";
import { Sessions } from "./Sessions";
import { begin, find, lastAgent, remember } from "./session";
import { type Talk, talkOf } from "./talk";
import { NoModel, Welcome } from "./Welcome";
import "./chat.css";

export default function Chat() {
  const { parts, query } = useRoute();
  const { user, may } = useWho();
  const agent = parts[1] ?? lastAgent(user);
  const named = parts[2];
  const group = query.get("agents");
  useEffect(() => {
    if (!parts[1] && !group) go(to(["chat", agent]), true);
  }, [parts[1], group, agent]);
  const found = useLoad(
    async (signal) => (group ? null : { user, agent, id: named ?? (await find(user, agent, may("write"), signal)) }),
    [user, agent, named, group],
  );
  const agents = useAgents(user);
  const narrow = useMedia("(max-width: 62rem)");
  const [drawer, setDrawer] = useState(false);
  const there = found.data?.user === user && found.data.agent === agent ? found.data : undefined;
  const id = named ?? there?.id ?? null;
  const talk = id ? talkOf(user, id) : null;
  useTalk(talk);
  const start = useCallback(
    async (names: string[]) => {
      try {
        const made = await begin(user, names);
        go(to(["chat", names[0] as string, made]), group !== null);
        setDrawer(false);
      } catch (error) {
        say(told(error));
      }
    },
    [user, group],
  );
  useEffect(() => {
    if (group) start(group.split(",").filter(Boolean));
  }, [group]);
  const who = talk?.session ? whoOf(talk.session) : [agent];
  useShortcut(() => may("write") && start(who));
  const real = talk?.session?.agent;
  useEffect(() => {
    if (named && real && real !== agent) go(to(["chat", real, named], { at: query.get("at") ?? undefined }), true);
  }, [named, real, agent]);
  useEffect(() => {
    document.title = `${talk?.session?.label || who.join(", ")} · retain`;
  }, [talk?.session?.label, who.join()]);
  const sessions = (
    <Sessions
      current={id}
      grown={`${id} ${talk?.last ?? 0}`}
      agent={agent}
      begin={() => start(who)}
      chosen={() => setDrawer(false)}
      removed={(gone) => {
        if (gone !== id) return;
        go(to(["chat", agent]));
        found.reload();
      }}
    />
  );
  return (
    <div className={narrow ? "chat narrow" : "chat"}>
      {!narrow && sessions}
      {narrow && drawer && (
        <Dialog title="Conversations" close={() => setDrawer(false)}>
          {sessions}
        </Dialog>
      )}
      <div className="talk">
        <Head
          talk={talk}
          agent={real ?? agent}
          who={who}
          agents={agents}
          showSessions={narrow ? () => setDrawer(true) : undefined}
          begin={start}
        />
        {talk ? (
          <Open key={talk.id} talk={talk} who={who} agents={agents} named={!!named} follow={found.reload} />
        ) : found.error ? (
          <Failure error={found.error} retry={found.reload}>
            <Link href="/agents/new">Set up an agent</Link>
          </Failure>
        ) : there && !there.id ? (
          <Empty title="Nothing has been said here">
            <p>Your key may read, but not write. What is said with {agent} by others of you appears here.</p>
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
  const [text, setText] = useDraft(talk);
  const { other, dismiss } = useElsewhere(talk, named, text, follow);
  useEffect(() => {
    talk.open();
  }, [talk]);
  const send = (said: string, images: string[]) => talk.say(said, images, who);
  const empty = talk.session && talk.session.count === 0 && talk.sent.length === 0;
  if (talk.error && !talk.session) {
    return (
      <Failure error={talk.error} retry={() => talk.open()}>
        <Link href={to(["chat", lastAgent(talk.user)])}>Go to your current conversation</Link>
      </Failure>
    );
  }
  if (!talk.session) return <Loading what="Reading the conversation" />;
  return (
    <>
      {other && (
        <div className="card notice" role="alert">
          <p>You went on with another conversation in another window or on another device.</p>
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
      {!!talk.error && !talk.away && <Failure error={talk.error} retry={() => talk.open()} />}
      {talk.away && !talk.busy && (
        <p className="card notice" role="status">
          The server does not answer at the moment. What you write stays here, and it is tried again.
        </p>
      )}
      {empty ? (
        <Welcome agent={who.join(" and ")} say={(said) => send(said, [])} />
      ) : (
        <Conversation
          talk={talk}
          agents={agents}
          at={Number(query.get("at")) || 0}
          takeBack={(said) => setText(text ? `${said}\n${text}` : said)}
        />
      )}
      {!empty && here.model === null && talk.last < 4 && <NoModel />}
      {may("write") && may("read") ? (
        <Composer talk={talk} text={text} setText={setText} send={send} />
      ) : (
        <p className="quiet readonly">Your key may read, but not write: nothing can be said here.</p>
      )}
      <p className="visually-hidden" role="status">
        {talk.announced}
      </p>
    </>
  );
}

function useAgents(user: string): Map<string, Agent> {
  const found = useLoad((signal) => get("/api/agents", { query: { user, limit: 100 }, signal }), [user]);
  const [agents, setAgents] = useState(new Map<string, Agent>());
  useEffect(() => setAgents(new Map(found.data?.data.map((agent) => [agent.name, agent]))), [found.data]);
  return agents;
}

const silent = () => () => {};

/** Draw again whenever something happens in a conversation. */
function useTalk(talk: Talk | null): void {
  useSyncExternalStore(talk?.subscribe ?? silent, () => talk?.version ?? 0);
}

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
