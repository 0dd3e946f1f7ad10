// One answer, and the context that the model received for it.
import type { Interaction, Report, Turn } from "../../api/index";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { to } from "../../app/route";
import { messageAt } from "../../refs/places";
import { withRefs } from "../../refs/RefText";
import { duration, formatKnown, money } from "../../ui/chart";
import { Link } from "../../ui/Link";
import { Markdown } from "../../ui/Markdown";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { Explained } from "./Explained";
import { loadPreviews, textOf } from "./lookup";
import { Turns } from "./Turns";
import { type AnsweredTurn, loadAnswer } from "./turn";
import css from "./why.module.css";

export function Answer({ id }: { id: string }) {
  const { user } = useApp();
  const loaded = useLoad((signal) => loadAnswer(id, user, signal), [id, user]);
  if (loaded.error && loaded.data?.turn.id !== id) return <Failure error={loaded.error} retry={loaded.reload} />;
  if (loaded.data?.turn.id !== id) return <Loading label="Loading the context" />;
  const { turn, agent, question, answer, call } = loaded.data;
  const report = turn.report as Report | null;
  const previewHref = to(["why"], { session: turn.session, turn: turn.id });
  return (
    <div className={css.whyColumns}>
      <div className={css.whyMain}>
        <Exchange agent={agent} turn={turn} question={question} answer={answer} />
        <Call of={call} called={turn.interaction !== null} />
        {report ? (
          <PromptOfTurn report={report} turn={turn} agent={agent} />
        ) : (
          <Empty title="This answer was saved without its context">
            <p>The turn was saved without its report, so its context cannot be shown.</p>
          </Empty>
        )}
        <p>
          <Link href={previewHref}>What would its context be now?</Link>
        </p>
      </div>
      <aside>
        <Turns session={turn.session} current={turn.id} />
      </aside>
    </div>
  );
}

/** The report with previews of those items that still exist. */
function PromptOfTurn({ report, turn, agent }: { report: Report; turn: Turn; agent: string }) {
  const { user } = useApp();
  const scope = { user, agent, session: turn.session, at: turn.created_at };
  const previews = useLoad((signal) => loadPreviews(scope, turn.last_seq, report, signal), [user, turn.id]);
  return <Explained report={report} texts={{ scope, ...previews.data }} />;
}

function Exchange({ agent, turn, question, answer }: Omit<AnsweredTurn, "call">) {
  return (
    <section className={`card ${css.whyExchange}`} aria-label="Question and answer">
      <div>
        <h2>Asked</h2>
        {question ? (
          <Markdown text={textOf(question.content)} inline={withRefs} />
        ) : (
          <p className="quiet">The question was deleted.</p>
        )}
      </div>
      <div>
        <h2>{agent} said</h2>
        {answer ? (
          <Markdown text={textOf(answer.content)} inline={withRefs} />
        ) : (
          <p className="quiet">The answer was deleted.</p>
        )}
      </div>
      <p className="quiet">
        <Time at={turn.created_at} /> ·{" "}
        <Link href={messageAt(agent, turn.session, turn.last_seq)}>Open in the conversation</Link>
      </p>
    </section>
  );
}

/** The tokens, time and cost of the model call. */
function Call({ of, called }: { of?: Interaction; called: boolean }) {
  if (!of) return <p className="quiet">{called ? "The model call is no longer recorded." : "No model was called."}</p>;
  const facts: [string, string][] = [
    ["Model", of.model],
    ["Tokens in", formatKnown(of.tokens_in, count)],
    ["Tokens out", formatKnown(of.tokens_out, count)],
    ["Cost", of.cost === null ? "not known" : money(of.cost)],
    ["Took", formatKnown(of.latency_ms, duration)],
  ];
  return (
    <dl className="details-list" aria-label="The model call">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {of.error && (
        <div>
          <dt>Failed</dt>
          <dd>{of.error}</dd>
        </div>
      )}
    </dl>
  );
}
