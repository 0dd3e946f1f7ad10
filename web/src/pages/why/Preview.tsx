// Preview the context of a message before it is sent; changing the budget shows what is left out.
import { useEffect, useRef, useState } from "react";
import { post } from "../../api/client";
import { useDebounced } from "../../api/debounced";
import type { ContextAnswer } from "../../api/index";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { conversationName } from "../../app/conversation";
import { go, to, useRoute } from "../../app/route";
import { Field } from "../../ui/Field";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { Budget } from "./Budget";
import { Explained } from "./Explained";
import { Prompt } from "./Prompt";
import { type Choice, pick, type Session } from "./pick";
import { changes, type Item, itemsOf } from "./report";
import { Turns } from "./Turns";
import { questionOf } from "./turn";
import { keepMessage, messageHere } from "./unsent";
import css from "./why.module.css";

export function Preview() {
  const { query } = useRoute();
  const { user } = useApp();
  const requested = { session: query.get("session"), agent: query.get("agent") };
  const turn = query.get("turn");
  const choice = useLoad(
    async (signal) => {
      const [result, question] = await Promise.all([
        pick(user, requested, signal),
        turn && questionOf(turn, user, signal),
      ]);
      return { ...result, question };
    },
    [user, requested.session, requested.agent],
  );
  if (choice.error) return <Failure error={choice.error} retry={choice.reload} />;
  if (!choice.data) return <Loading />;
  const { session, question } = choice.data;
  return (
    <>
      <Pick from={choice.data} />
      {session ? (
        <div className={css.whyColumns}>
          <div className={css.whyMain}>
            <Live
              session={session}
              titles={titlesOf(choice.data.sessions)}
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
            <Link href={to(["chat", choice.data.agent])}>Talk to {choice.data.agent}</Link>
          </p>
        </Empty>
      )}
    </>
  );
}

function Pick({ from }: { from: Choice }) {
  const choose = (target: { agent: string } | { session: string }) => {
    const { message } = history.state ?? {};
    go(to(["why"], target));
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
          {withOwn(from).map((item) => (
            <option key={item.id} value={item.id}>
              {conversationName(item)}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
}

const titlesOf = (sessions: Session[]) => Object.fromEntries(sessions.map((item) => [item.id, conversationName(item)]));

function withOwn({ sessions, session }: Choice): Session[] {
  return session && !sessions.some((item) => item.id === session.id) ? [session, ...sessions] : sessions;
}

type Props = { session: Session; titles: Record<string, string>; first: string };

function Live({ session, titles, first }: Props) {
  const { user } = useApp();
  const [message, setMessage] = useState(first);
  const [budget, setBudget] = useState<number | null>(null);
  const [debouncedMessage, debouncedBudget] = [useDebounced(message), useDebounced(budget, 150)];
  const context = useLoad(
    (signal) => {
      const body = {
        session: session.id,
        message: debouncedMessage,
        budget: debouncedBudget,
        others: [],
        text: false,
        whole: true,
      };
      return post("/api/context", { query: { user, agent: session.agent }, body, signal });
    },
    [user, session.id, debouncedMessage, debouncedBudget],
  );
  useEffect(() => {
    go(to(["why"], { session: session.id }), true);
    keepMessage(debouncedMessage);
  }, [debouncedMessage, session.id]);
  const last = useRef<{ session: string; answer: ContextAnswer }>(undefined);
  if (context.data) last.current = { session: session.id, answer: context.data };
  // A budget that is too small gives an error: keep showing the last preview and its slider.
  const answer = context.data ?? (last.current?.session === session.id ? last.current.answer : undefined);
  const { added, fell, previews } = useChanges(answer, session.id);
  const report = answer?.report;
  const scope = { user, agent: session.agent, session: session.id, at: new Date().toISOString() };
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
            texts={{ scope, texts, previews, titles }}
            stale={context.loading}
            added={added}
            fell={fell}
          />
          <Prompt messages={answer.messages} />
        </div>
      ) : (
        !context.error && <Loading label="Assembling the context" />
      )}
    </>
  );
}

const textsOf = (answer: ContextAnswer) => (answer.whole?.texts ?? {}) as Record<string, string>;
type Changes = { added?: Set<string>; fell?: Item[]; previews?: Record<string, string> };

/** The differences from the previous preview, with the first words of the items left out. */
function useChanges(answer: ContextAnswer | undefined, session: string): Changes {
  const shown = useRef<{ answer?: ContextAnswer; previous?: ContextAnswer; session: string }>({ session });
  if (answer && shown.current.answer !== answer) {
    const previous = shown.current.session === session ? shown.current.answer : undefined;
    shown.current = { answer, session, previous };
  }
  const { previous } = shown.current;
  if (!answer || !previous) return {};
  return { ...changes(itemsOf(previous.report.items), itemsOf(answer.report.items)), previews: textsOf(previous) };
}
