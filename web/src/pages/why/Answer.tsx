// Why it said that: one answer, and the context it was given.
import { get } from "../../api/client";
import type { Interaction, Message, Report, Turn } from "../../api/index";
import { useLoad } from "../../api/load";
import { to } from "../../app/route";
import { useWho } from "../../app/who";
import { messageAt } from "../../refs/places";
import { withRefs } from "../../refs/RefText";
import { duration, money } from "../../ui/chart";
import { Link } from "../../ui/Link";
import { Markdown } from "../../ui/Markdown";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { Explained } from "./Explained";
import { beginnings, saidIn } from "./lookup";
import { Turns } from "./Turns";

type Loaded = { turn: Turn; agent: string; question?: Message; answer?: Message; call?: Interaction };

export function Answer({ id }: { id: string }) {
  const { user } = useWho();
  const loaded = useLoad((signal) => load(id, user, signal), [id, user]);
  if (loaded.error && loaded.data?.turn.id !== id) return <Failure error={loaded.error} retry={loaded.reload} />;
  if (loaded.data?.turn.id !== id) return <Loading what="Reading what it was given" />;
  const { turn, agent, question, answer, call } = loaded.data;
  const report = turn.report as Report | null;
  const again = to(["why"], { session: turn.session, message: question && saidIn(question.content).slice(0, 2000) });
  return (
    <div className="why-columns">
      <div className="why-main">
        <Exchange agent={agent} turn={turn} question={question} answer={answer} />
        <Call of={call} called={turn.interaction !== null} />
        {report ? (
          <Given report={report} turn={turn} agent={agent} />
        ) : (
          <Empty title="This answer was saved without its context">
            <p>Whoever saved it did not send the report, so nobody can say any more what it was given.</p>
          </Empty>
        )}
        <p>
          <Link href={again}>What would it be given now?</Link>
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
  const begins = useLoad((signal) => beginnings(where, turn.last_seq, signal), [user, turn.id]);
  return <Explained report={report} reading={{ where, begins: begins.data }} />;
}

function Exchange({ agent, turn, question, answer }: Omit<Loaded, "call">) {
  return (
    <section className="card why-exchange" aria-label="Question and answer">
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
        <Link href={messageAt(agent, turn.session, turn.last_seq)}>Open it in the conversation</Link>
      </p>
    </section>
  );
}

/** What the model call cost. */
function Call({ of, called }: { of?: Interaction; called: boolean }) {
  if (!of) return <p className="quiet">{called ? "The model call is no longer recorded." : "No model was called."}</p>;
  const facts: [string, string][] = [
    ["Model", of.model],
    ["Tokens in", count(of.tokens_in)],
    ["Tokens out", count(of.tokens_out)],
    ["Cost", of.cost === null ? "not known" : money(of.cost)],
    ["Took", duration(of.latency_ms)],
  ];
  return (
    <dl className="facts" aria-label="The model call">
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

async function load(id: string, user: string, signal: AbortSignal): Promise<Loaded> {
  const turn = await get("/api/turns/{id}", { path: { id }, query: { user }, signal });
  const query = { user, last: 40, before: turn.last_seq + 1, turns_only: true };
  const [session, messages, call] = await Promise.all([
    get("/api/sessions/{id}", { path: { id: turn.session }, query: { user }, signal }),
    get("/api/messages/{session}/window", { path: { session: turn.session }, query, signal }),
    callOf(turn, user, signal),
  ]);
  const prompt = (turn.report as Report | null)?.items.find(([layer]) => layer === "system")?.[1];
  const agent = prompt?.startsWith("agents ") ? prompt.slice("agents ".length) : session.agent;
  const answer = messages.findLast((message) => message.role === "assistant" && message.seq >= turn.first_seq);
  const question = messages.findLast(
    (message) => message.role === "user" && message.seq < (answer?.seq ?? turn.last_seq),
  );
  return { turn, agent, question, answer, call };
}

/** The model call of a turn: it was recorded in the same moment. */
async function callOf(turn: Turn, user: string, signal: AbortSignal): Promise<Interaction | undefined> {
  if (!turn.interaction) return undefined;
  const at = new Date(turn.created_at).getTime();
  const [since, until] = [new Date(at - 1).toISOString(), new Date(at + 2).toISOString()];
  const page = await get("/api/interactions", { query: { user, since, until, limit: 100 }, signal });
  return page.data.find((one) => one.id === turn.interaction);
}
