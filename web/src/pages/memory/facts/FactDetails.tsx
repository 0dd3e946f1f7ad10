// The messages that a fact comes from, and everything that happened to it and to the facts that it replaced.
import { get, Problem } from "../../../api/client";
import type { Fact, Message } from "../../../api/index";
import { useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { messageAt } from "../../../refs/places";
import { Link } from "../../../ui/Link";
import { Failure, Loading } from "../../../ui/states";
import { Time } from "../../../ui/time";
import { words } from "../../chat/content";
import type { FactActions } from "./actions";
import { isUndoable, sourceName, stepsOf } from "./fact";
import css from "./facts.module.css";
import { StepItem } from "./StepItem";

const MAX_MESSAGES = 10;
const MAX_QUOTE = 400;

type Props = { fact: Fact; actions: FactActions; forget: () => void };

export function FactDetails({ fact, actions, forget }: Props) {
  const { user, may } = useApp();
  const history = useLoad(
    (signal) => get("/api/facts/{id}/history", { path: { id: fact.id }, query: { user }, signal }),
    [user, fact],
  );
  const changes = history.data ?? [];
  return (
    <>
      <section>
        <h3>Where it was said</h3>
        {fact.evidence.length ? (
          <Messages fact={fact} />
        ) : (
          <p className="quiet">No message: {sourceName(fact.source, fact.agent)} added it.</p>
        )}
      </section>
      <section>
        <h3>What happened</h3>
        {history.error ? <Failure error={history.error} retry={history.reload} /> : null}
        {!history.data && history.loading && <Loading label="Loading the history" />}
        {history.data && (
          <ol className={css.timeline} aria-label="History">
            {stepsOf(changes).map((step) => (
              <StepItem key={step.id} step={step} />
            ))}
          </ol>
        )}
      </section>
      <div className="toolbar">
        {may("write") && isUndoable(changes) && (
          <button type="button" disabled={actions.busy === fact.id} onClick={() => actions.undo(fact.id)}>
            Undo the last change
          </button>
        )}
        {may("delete") && (
          <button type="button" className="danger" onClick={forget}>
            Forget…
          </button>
        )}
      </div>
    </>
  );
}

/** The words of the messages, each with a link to its place in the conversation. */
function Messages({ fact }: { fact: Fact }) {
  const { user } = useApp();
  const evidence = fact.evidence.slice(0, MAX_MESSAGES);
  const messages = useLoad<(Message | null)[]>(
    (signal) =>
      Promise.all(
        evidence.map((path) =>
          get("/api/messages/{session}/{seq}", { path, query: { user }, signal }).catch((error) => {
            if (error instanceof Problem && error.status === 404) return null;
            throw error;
          }),
        ),
      ),
    [user, JSON.stringify(evidence)],
  );
  if (messages.error) return <Failure error={messages.error} retry={messages.reload} />;
  if (!messages.data || messages.stale) return <Loading label="Loading the messages" />;
  return (
    <ul className={css.messages}>
      {evidence.map(({ session, seq }, index) => {
        const message = messages.data?.[index];
        return (
          <li key={`${session} ${seq}`}>
            {message ? (
              <>
                <blockquote>{words(message).slice(0, MAX_QUOTE)}</blockquote>
                <p className="quiet">
                  <Time at={message.created_at} />{" "}
                  <Link href={messageAt(fact.agent ?? "assistant", session, seq)}>Open the conversation</Link>
                </p>
              </>
            ) : (
              <p className="quiet">Message {seq} was deleted.</p>
            )}
          </li>
        );
      })}
      {fact.evidence.length > MAX_MESSAGES && (
        <li className="quiet">and {fact.evidence.length - MAX_MESSAGES} more messages</li>
      )}
    </ul>
  );
}
