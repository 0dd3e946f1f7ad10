// One answer, and the context that the model received for it.
import type { Interaction, Report, Turn } from "../../api/index";
import { useLoad } from "../../api/load";
import { to } from "../../app/route";
import { useWho } from "../../app/who";
import { messageAt } from "../../refs/places";
import { withRefs } from "../../refs/RefText";
import { duration, known, money } from "../../ui/chart";
import { Link } from "../../ui/Link";
import { Markdown } from "../../ui/Markdown";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { Explained } from "./Explained";
import { beginnings, saidIn } from "./lookup";
import { Turns } from "./Turns";
import { type Answered, answered } from "./turn";
import css from "./why.module.css";

export function Answer({ id }: { id: string }) {
  const { user } = useWho();
  const loaded = useLoad((signal) => answered(id, user, signal), [id, user]);
  if (loaded.error && loaded.data?.turn.id !== id) return <Failure error={loaded.error} retry={loaded.reload} />;
  if (loaded.data?.turn.id !== id) return <Loading what="Reading what it was given" />;
  const { turn, agent, question, answer, call } = loaded.data;
  const report = turn.report as Report | null;
  const again = to(["why"], { session: turn.session, turn: turn.id });
  return (
    <div className={css.whyColumns}>
      <div className={css.whyMain}>
        <Exchange agent={agent} turn={turn} question={question} answer={answer} />
        <Call of={call} called={turn.interaction !== null} />
        {report ? (
          <Given report={report} turn={turn} agent={agent} />
        ) : (
          <Empty title="This answer was saved without its context">
            <p>The turn was saved without its report, so its context cannot be shown.</p>
          </Empty>
        )}
        <p>
          <Link href={again}>What would its context be now?</Link>
        </p>
      </div>
      <aside>
        <Turns session={turn.session} here={turn.id} />
      </aside>
    </div>
  );
}

/** The report, with how its items begin where that is still known. */
function Given({ report, turn, agent }: { report: Report; turn: Turn; agent: string }) {
  const { user } = useWho();
  const where = { user, agent, session: turn.session, at: turn.created_at };
  const begins = useLoad((signal) => beginnings(where, turn.last_seq, report, signal), [user, turn.id]);
  return <Explained report={report} reading={{ where, ...begins.data }} />;
}

function Exchange({ agent, turn, question, answer }: Omit<Answered, "call">) {
  return (
    <section className={`card ${css.whyExchange}`} aria-label="Question and answer">
      <div>
        <h2>Asked</h2>
        {question ? (
          <Markdown text={saidIn(question.content)} inline={withRefs} />
        ) : (
          <p className="quiet">The question is no longer there.</p>
        )}
      </div>
      <div>
        <h2>{agent} said</h2>
        {answer ? (
          <Markdown text={saidIn(answer.content)} inline={withRefs} />
        ) : (
          <p className="quiet">The answer is no longer there.</p>
        )}
      </div>
      <p className="quiet">
        <Time at={turn.created_at} /> ·{" "}
        <Link href={messageAt(agent, turn.session, turn.last_seq)}>Open in the conversation</Link>
      </p>
    </section>
  );
}

/** What the model call cost. */
function Call({ of, called }: { of?: Interaction; called: boolean }) {
  if (!of) return <p className="quiet">{called ? "The model call is no longer recorded." : "No model was called."}</p>;
  const facts: [string, string][] = [
    ["Model", of.model],
    ["Tokens in", known(of.tokens_in, count)],
    ["Tokens out", known(of.tokens_out, count)],
    ["Cost", of.cost === null ? "not known" : money(of.cost)],
    ["Took", known(of.latency_ms, duration)],
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
