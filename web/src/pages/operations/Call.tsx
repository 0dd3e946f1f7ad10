// All fields of one model call, with a link to the explanation of its answer.
import { get } from "../../api/client";
import type { Interaction } from "../../api/index";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to } from "../../app/route";
import { duration, formatKnown, money } from "../../ui/chart";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Loading } from "../../ui/states";
import { count, moment } from "../../ui/time";
import { notify } from "../../ui/toast";
import { textOf } from "../why/lookup";
import { loadAnswer } from "../why/turn";
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
          ["Took", formatKnown(call.latency_ms, duration)],
          ["Tokens in", formatKnown(call.tokens_in, count)],
          ["Tokens out", formatKnown(call.tokens_out, count)],
          ["Cost", call.cost === null ? "unknown" : money(call.cost)],
          ["User", call.user],
          ["Agent", call.agent],
          ["Session", call.session],
          ["Id", call.id],
        ]}
      />
      {call.session ? (
        <CallLinks call={call} session={call.session} />
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

/** Links from a call to its turn, if it is recent, and to its conversation. */
function CallLinks({ call, session }: { call: Interaction; session: string }) {
  const { user } = useApp();
  const turn = useLoad(
    async (signal) => {
      const query = { session, user: call.user ?? undefined, limit: 100 };
      const page = await get("/api/turns", { query, signal });
      const match = page.data.find((item) => item.interaction === call.id);
      return match && (await loadAnswer(match.id, call.user ?? user, signal));
    },
    [call.id],
  );
  const links: [string, string][] = [];
  if (turn.data) links.push(["Why this answer", to(["why", turn.data.turn.id])]);
  if (call.agent) links.push(["The conversation", to(["chat", call.agent, session])]);
  return (
    <>
      {turn.loading && <Loading label="Loading the prompt" />}
      {turn.data?.question && <Text title="Prompt" text={textOf(turn.data.question.content)} />}
      {turn.data?.answer && <Text title="Answer" text={textOf(turn.data.answer.content)} />}
      <p className="toolbar">
        {links.map(([label, href]) => (
          <UserLink key={label} label={label} href={href} user={call.user ?? user} />
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

/** A link to another user's memory; it switches to that user and says so. */
function UserLink({ label, href, user }: { label: string; href: string; user: string }) {
  const app = useApp();
  if (user === app.user) return <Link href={href}>{label}</Link>;
  if (!app.choosable) return null;
  const change = () => {
    app.choose(user);
    go(href);
    notify(`You see the memory of ${user} now.`);
  };
  return (
    <button type="button" className="link" onClick={change}>
      {label}, as {user}
    </button>
  );
}
