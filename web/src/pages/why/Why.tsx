// Why: the context of a saved answer, or of a message that could be sent now, item by item.
import { useEffect } from "react";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to, useRoute } from "../../app/route";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { Answer } from "./Answer";
import { Preview } from "./Preview";
import { findTurn } from "./turn";
import css from "./why.module.css";

export default function Why() {
  const { parts, query } = useRoute();
  const [id, session, seq] = [parts[1], query.get("session"), Number(query.get("seq"))];
  useTitle(id ? "Why this answer" : "Why");
  return (
    <div className={`page ${css.why}`}>
      <header>
        <h1>{id ? "Why this answer" : "Preview the context"}</h1>
        {id && <Link href="/why">Try a message</Link>}
      </header>
      {id ? <Answer id={id} /> : session && seq > 0 ? <AnswerAt session={session} seq={seq} /> : <Preview />}
    </div>
  );
}

/** Find the turn of a message and show it. */
function AnswerAt({ session, seq }: { session: string; seq: number }) {
  const { user } = useApp();
  const turn = useLoad((signal) => findTurn(session, seq, user, signal), [session, seq, user]);
  useEffect(() => {
    if (turn.data) go(to(["why", turn.data]), true);
  }, [turn.data]);
  if (turn.error) return <Failure error={turn.error} retry={turn.reload} />;
  if (turn.data !== null) return <Loading />;
  return (
    <Empty title="No answer is recorded for this message">
      <p>It was stored without a turn. Only answers from a chat or a saved turn can be explained.</p>
      <p>
        <Link href={to(["why"], { session })}>Show the conversation's current context</Link>
      </p>
    </Empty>
  );
}
