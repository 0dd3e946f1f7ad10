// The answers of a conversation, to choose the one to explain.
import { get } from "../../api/client";
import type { Turn } from "../../api/index";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { to } from "../../app/route";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { textOf } from "./lookup";
import css from "./why.module.css";

type Listed = { turn: Turn; question: string };
const SIZE = 20;

export function Turns({ session, current }: { session: string; current?: string }) {
  const { user } = useApp();
  const turns = usePages((after, signal) => page(session, user, after, signal), [session, user]);
  return (
    <nav className={css.whyTurns} aria-label="Answers in this conversation">
      <h2>Answers</h2>
      {turns.error !== undefined && <Failure error={turns.error} retry={turns.reload} />}
      {turns.loading && !turns.items.length && <Loading />}
      {!turns.loading && !turns.error && !turns.items.length && (
        <p className="quiet">None yet in this conversation. Each chat answer can be explained here.</p>
      )}
      <ul>
        {turns.items.map(({ turn, question }) => (
          <li key={turn.id}>
            <Link href={to(["why", turn.id])} aria-current={turn.id === current ? "page" : undefined}>
              <span className={css.whyAsked}>{question || `Messages ${turn.first_seq} to ${turn.last_seq}`}</span>
              <span className="quiet">
                <Time at={turn.created_at} />
                {turn.report ? ` · ${count(Number(turn.report.tokens))} tokens` : " · no report"}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {turns.hasMore && (
        <button type="button" onClick={turns.more} disabled={turns.loading}>
          Older answers
        </button>
      )}
    </nav>
  );
}

/** A page of turns with their questions, which are loaded in one request. */
async function page(session: string, user: string, after: string | undefined, signal: AbortSignal) {
  const result = await get("/api/turns", { query: { session, user, after, limit: SIZE }, signal });
  const newest = result.data[0];
  if (!newest) return { data: [], next: null };
  const query = { user, last: 6 * SIZE, before: newest.last_seq + 1, turns_only: true };
  const messages = await get("/api/messages/{session}/window", { path: { session }, query, signal });
  const questionFor = (turn: Turn) =>
    messages.findLast(
      (message) => message.role === "user" && message.seq <= Math.max(turn.first_seq, turn.last_seq - 1),
    );
  const data = result.data.map((turn): Listed => {
    const message = questionFor(turn);
    return { turn, question: message ? textOf(message.content).slice(0, 160) : "" };
  });
  return { data, next: result.next };
}
