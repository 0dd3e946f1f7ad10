// The line where the summary of a conversation ends. It opens the summary, and from there the messages that it covers.
import { useState } from "react";
import { get, post } from "../../api/client";
import type { Summary } from "../../api/index";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { withRefs } from "../../refs/RefText";
import { Dialog } from "../../ui/Dialog";
import { Markdown } from "../../ui/Markdown";
import { Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { notify } from "../../ui/toast";
import css from "./chat.module.css";
import { words } from "./content";
import type { Talk } from "./talk";

export function SummaryMark({ talk }: { talk: Talk }) {
  const [open, setOpen] = useState(false);
  const summarized = talk.session?.summarizedCount ?? 0;
  return (
    <div className={css.summaryMark}>
      <button type="button" className="chip accent" onClick={() => setOpen(true)}>
        Summarised up to here, {count(summarized)} messages
      </button>
      {open && <Summaries talk={talk} close={() => setOpen(false)} />}
    </div>
  );
}

/** The summaries of a conversation, newest first. */
export function Summaries({ talk, close }: { talk: Talk; close: () => void }) {
  const path = { session: talk.id };
  const pages = usePages(
    (after, signal) =>
      get("/api/summaries/{session}/all", { path, query: { user: talk.user, after, limit: 20 }, signal }),
    [talk],
  );
  const { may } = useApp();
  const [folding, setFolding] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const fold = async () => {
    setFolding(true);
    setFailed(undefined);
    try {
      await summarize(talk);
      pages.reload();
    } catch (error) {
      setFailed(error);
    } finally {
      setFolding(false);
    }
  };
  return (
    <Dialog title="Summary" close={close} wide>
      <p className="quiet">
        The agent receives this text instead of the messages that it covers. The messages themselves are not changed.
      </p>
      {may("write") && (
        <div>
          <button type="button" onClick={fold} disabled={folding}>
            {folding ? "Summarising…" : "Summarise now"}
          </button>
        </div>
      )}
      {!!failed && <Failure error={failed} retry={fold} />}
      {pages.items.map((summary, index) => (
        <SummaryItem key={summary.number} summary={summary} talk={talk} open={index === 0} />
      ))}
      {pages.loading && <Loading />}
      {!!pages.error && <Failure error={pages.error} retry={pages.reload} />}
      {!pages.loading && !pages.error && pages.items.length === 0 && <p>Nothing has been summarised yet.</p>}
      {pages.hasMore && (
        <button type="button" onClick={pages.more}>
          Earlier summaries
        </button>
      )}
    </Dialog>
  );
}

function SummaryItem({ summary, talk, open }: { summary: Summary; talk: Talk; open: boolean }) {
  const [expanded, setExpanded] = useState(false);
  return (
    <details className="card" open={open}>
      <summary>
        {summary.covers_to
          ? `Messages ${count(summary.covers_from)} to ${count(summary.covers_to)} added`
          : "Imported, covers no message"}
        {summary.created_at && (
          <>
            , <Time at={summary.created_at} />
          </>
        )}
        , by {summary.model || "no model"}
      </summary>
      <Markdown text={summary.text} inline={withRefs} />
      <button type="button" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
        {expanded ? "Hide its messages" : "Show its messages"}
      </button>
      {expanded && <CoveredMessages number={summary.number} talk={talk} />}
    </details>
  );
}

function CoveredMessages({ number, talk }: { number: number; talk: Talk }) {
  const path = { session: talk.id };
  const pages = usePages(
    (after, signal) =>
      get("/api/summaries/{session}/messages", { path, query: { user: talk.user, number, after, limit: 50 }, signal }),
    [talk, number],
  );
  return (
    <>
      <ol className={css.covered} aria-label="Messages that the summary covers">
        {pages.items.map((message) => (
          <li key={message.seq}>
            <b>{message.role === "user" ? "You" : (message.author ?? message.role)}</b>
            <Markdown text={words(message) || "(a tool)"} inline={withRefs} />
          </li>
        ))}
      </ol>
      {pages.loading && <Loading />}
      {!!pages.error && <Failure error={pages.error} retry={pages.reload} />}
      {pages.hasMore && (
        <button type="button" onClick={pages.more}>
          More
        </button>
      )}
    </>
  );
}

/** Summarize now, even if no summary is due. */
async function summarize(talk: Talk): Promise<void> {
  const previousCount = talk.session?.summarizedCount ?? 0;
  const created = await post("/api/summaries/{session}/fold", {
    path: { session: talk.id },
    query: { user: talk.user },
    body: { force: true },
  });
  await talk.refresh();
  notify(
    created.covers_to > previousCount
      ? `Summarised up to message ${created.covers_to}.`
      : "There was nothing more to summarise.",
  );
}
