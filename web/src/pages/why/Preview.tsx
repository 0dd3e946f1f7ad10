// Preview the context of a message before it is sent; changing the budget shows what is left out.
import { useEffect, useRef, useState } from "react";
import { post } from "../../api/client";
import type { ContextAnswer } from "../../api/index";
import { useLoad } from "../../api/load";
import { useSettled } from "../../api/settled";
import { conversationName } from "../../app/conversation";
import { go, to, useRoute } from "../../app/route";
import { useWho } from "../../app/who";
import { Field } from "../../ui/Field";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { Budget } from "./Budget";
import { Explained } from "./Explained";
import { Prompt } from "./Prompt";
import { type Picked, pick, type Session } from "./pick";
import { changes, type Item, itemsOf } from "./report";
import { Turns } from "./Turns";
import { questionOf } from "./turn";
import { keepMessage, messageHere } from "./unsent";
import css from "./why.module.css";

export function Preview() {
  const { query } = useRoute();
  const { user } = useWho();
  const asked = { session: query.get("session"), agent: query.get("agent") };
  const turn = query.get("turn");
  const picked = useLoad(
    async (signal) => {
      const [found, question] = await Promise.all([pick(user, asked, signal), turn && questionOf(turn, user, signal)]);
      return { ...found, question };
    },
    [user, asked.session, asked.agent],
  );
  if (picked.error) return <Failure error={picked.error} retry={picked.reload} />;
  if (!picked.data) return <Loading />;
  const { session, question } = picked.data;
  return (
    <>
      <Pick from={picked.data} />
      {session ? (
        <div className={css.whyColumns}>
          <div className={css.whyMain}>
            <Live
              session={session}
              titles={titlesOf(picked.data.sessions)}
              first={question || query.get("message") || messageHere(user, session.id)}
            />
          </div>
          <aside>
            <Turns session={session.id} />
          </aside>
        </div>
      ) : (
        <Empty title="Nothing to explain yet">
          <p>This page shows what an agent's model receives for a message, and why. Start a conversation first.</p>
          <p>
            <Link href={to(["chat", picked.data.agent])}>Talk to {picked.data.agent}</Link>
          </p>
        </Empty>
      )}
    </>
  );
}

function Pick({ from }: { from: Picked }) {
  const choose = (whose: { agent: string } | { session: string }) => {
    const { message } = history.state ?? {};
    go(to(["why"], whose));
    if (message) keepMessage(message);
  };
  return (
    <div className={css.whyPick}>
      <Field label="Agent">
        <select value={from.agent} onChange={(event) => choose({ agent: event.target.value })}>
          {from.agents.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Field>
      <Field label="Conversation">
        <select
          value={from.session?.id ?? ""}
          disabled={!from.session}
          onChange={(event) => choose({ session: event.target.value })}
        >
          {!from.session && <option value="">none yet</option>}
          {withOwn(from).map((one) => (
            <option key={one.id} value={one.id}>
              {conversationName(one)}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
}

const titlesOf = (sessions: Session[]) => Object.fromEntries(sessions.map((one) => [one.id, conversationName(one)]));

function withOwn({ sessions, session }: Picked): Session[] {
  return session && !sessions.some((one) => one.id === session.id) ? [session, ...sessions] : sessions;
}

type Shown = { session: Session; titles: Record<string, string>; first: string };

function Live({ session, titles, first }: Shown) {
  const { user } = useWho();
  const [message, setMessage] = useState(first);
  const [budget, setBudget] = useState<number | null>(null);
  const [settled, size] = [useSettled(message), useSettled(budget, 150)];
  const context = useLoad(
    (signal) => {
      const body = { session: session.id, message: settled, budget: size, others: [], text: false, whole: true };
      return post("/api/context", { query: { user, agent: session.agent }, body, signal });
    },
    [user, session.id, settled, size],
  );
  useEffect(() => {
    go(to(["why"], { session: session.id }), true);
    keepMessage(settled);
  }, [settled, session.id]);
  const last = useRef<{ session: string; answer: ContextAnswer }>(undefined);
  if (context.data) last.current = { session: session.id, answer: context.data };
  // A budget that is too small is no answer: the one before stays in sight, and with it the way back.
  const answer = context.data ?? (last.current?.session === session.id ? last.current.answer : undefined);
  const { came, fell, begins } = useChanges(answer, session.id);
  const report = answer?.report;
  const where = { user, agent: session.agent, session: session.id, at: new Date().toISOString() };
  const texts = answer && textsOf(answer);
  return (
    <>
      <div className={css.whyAsk}>
        <Field label="Message to preview" hint="Nothing is sent or stored, and no model is called.">
          <textarea
            rows={3}
            value={message}
            placeholder="Where does my sister live?"
            onChange={(event) => setMessage(event.target.value)}
          />
        </Field>
        {report && <Budget value={budget ?? report.budget} set={setBudget} />}
      </div>
      {context.error !== undefined && context.error !== null && (
        <Failure error={context.error} retry={context.reload} />
      )}
      {report && answer ? (
        <div className={context.error ? css.whyStale : css.whyLive}>
          <Explained
            report={report}
            reading={{ where, texts, begins, titles }}
            stale={context.loading}
            came={came}
            fell={fell}
          />
          <Prompt messages={answer.messages} />
        </div>
      ) : (
        !context.error && <Loading what="Putting it together" />
      )}
    </>
  );
}

const textsOf = (answer: ContextAnswer) => (answer.whole?.texts ?? {}) as Record<string, string>;
type Changes = { came?: Set<string>; fell?: Item[]; begins?: Record<string, string> };

/** The differences from the previous preview of the conversation, with the beginnings of the items left out. */
function useChanges(answer: ContextAnswer | undefined, session: string): Changes {
  const seen = useRef<{ answer?: ContextAnswer; before?: ContextAnswer; session: string }>({ session });
  if (answer && seen.current.answer !== answer) {
    const before = seen.current.session === session ? seen.current.answer : undefined;
    seen.current = { answer, session, before };
  }
  const { before } = seen.current;
  if (!answer || !before) return {};
  return { ...changes(itemsOf(before.report.items), itemsOf(answer.report.items)), begins: textsOf(before) };
}
