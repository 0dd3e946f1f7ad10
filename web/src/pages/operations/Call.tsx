// All fields of one model call, with a link to the explanation of its answer.
import { get } from "../../api/client";
import type { Interaction } from "../../api/index";
import { useLoad } from "../../api/load";
import { go, to } from "../../app/route";
import { useWho } from "../../app/who";
import { duration, known, money } from "../../ui/chart";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Loading } from "../../ui/states";
import { count, moment } from "../../ui/time";
import { say } from "../../ui/toast";
import { saidIn } from "../why/lookup";
import { answered } from "../why/turn";
import { Facts } from "./Facts";

export function Call({ call, close }: { call: Interaction; close: () => void }) {
  return (
    <Dialog title={`${call.model}, ${call.route}`} close={close} wide>
      {call.error && (
        <div className="failure">
          <p>{call.error}</p>
        </div>
      )}
      <Facts
        facts={[
          ["When", moment(call.created_at)],
          ["Took", known(call.latency_ms, duration)],
          ["Tokens in", known(call.tokens_in, count)],
          ["Tokens out", known(call.tokens_out, count)],
          ["Cost", call.cost === null ? "unknown" : money(call.cost)],
          ["User", call.user],
          ["Agent", call.agent],
          ["Session", call.session],
          ["Id", call.id],
        ]}
      />
      {call.session ? (
        <Ways call={call} session={call.session} />
      ) : (
        <p className="quiet">This call belongs to no conversation, so its prompt and answer are not stored.</p>
      )}
      {Object.keys(call.parameters).length > 0 && (
        <>
          <h3>Parameters</h3>
          <pre>{JSON.stringify(call.parameters, null, 2)}</pre>
        </>
      )}
    </Dialog>
  );
}

/** From a call to its turn, if that is among the last of its session; and to the conversation. */
function Ways({ call, session }: { call: Interaction; session: string }) {
  const { user } = useWho();
  const turn = useLoad(
    async (signal) => {
      const query = { session, user: call.user ?? undefined, limit: 100 };
      const page = await get("/api/turns", { query, signal });
      const found = page.data.find((one) => one.interaction === call.id);
      return found && (await answered(found.id, call.user ?? user, signal));
    },
    [call.id],
  );
  const ways: [string, string][] = [];
  if (turn.data) ways.push(["Why it said that", to(["why", turn.data.turn.id])]);
  if (call.agent) ways.push(["The conversation", to(["chat", call.agent, session])]);
  return (
    <>
      {turn.loading && <Loading what="Loading the prompt" />}
      {turn.data?.question && <Text title="Prompt" text={saidIn(turn.data.question.content)} />}
      {turn.data?.answer && <Text title="Answer" text={saidIn(turn.data.answer.content)} />}
      <p className="toolbar">
        {ways.map(([label, href]) => (
          <Way key={label} label={label} href={href} user={call.user ?? user} />
        ))}
      </p>
    </>
  );
}

function Text({ title, text }: { title: string; text: string }) {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <pre className="plain">{text}</pre>
    </section>
  );
}

/** A page shows one user's memory: to somebody else's one goes as that user, and is told so. */
function Way({ label, href, user }: { label: string; href: string; user: string }) {
  const who = useWho();
  if (user === who.user) return <Link href={href}>{label}</Link>;
  if (!who.choosable) return null;
  const change = () => {
    who.choose(user);
    go(href);
    say(`You see the memory of ${user} now.`);
  };
  return (
    <button type="button" className="link" onClick={change}>
      {label}, as {user}
    </button>
  );
}
