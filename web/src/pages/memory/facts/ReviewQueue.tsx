// The review queue: facts that wait for a person, and pairs of facts that may contradict each other.
import { type KeyboardEvent, useRef } from "react";
import { get, Problem } from "../../../api/client";
import type { Fact } from "../../../api/index";
import { type Pages, useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Empty, Failure, Loading } from "../../../ui/states";
import type { FactActions } from "./actions";
import { EvidenceLinks, FactInfo } from "./FactRow";
import { subjectName } from "./fact";
import css from "./facts.module.css";

type Props = { queue: Pages<Fact>; actions: FactActions; correct: (fact: Fact) => void };

export function ReviewQueue({ queue, actions, correct }: Props) {
  const { may } = useApp();
  const box = useRef<HTMLUListElement>(null);
  const { items } = queue;
  const focus = (index: number) => box.current?.querySelector<HTMLElement>(`[data-at="${index}"]`)?.focus();
  const settle = async (decide: () => Promise<void>, index: number) => {
    await decide();
    requestAnimationFrame(() => focus(Math.min(index, items.length - 2))); // the settled fact is gone
  };
  const press = (event: KeyboardEvent) => {
    const index = Number((event.target as HTMLElement).dataset.at ?? Number.NaN); // only for a focused question
    const fact = items[index];
    if (event.ctrlKey || event.metaKey || event.altKey || !fact) return;
    const isAllowed = may("write") && !actions.busy && !event.repeat;
    const keys: Record<string, () => void> = {
      j: () => focus(index + 1),
      k: () => focus(index - 1),
      ...(isAllowed && { a: () => settle(() => actions.confirm(fact), index) }),
      ...(isAllowed && { r: () => settle(() => actions.retract(fact), index) }),
    };
    const action = keys[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  };
  return (
    <>
      <p className="quiet">
        Facts from tools and imports wait here until a person confirms them. So do facts that may contradict another
        one.
        {items.length > 0 && (
          <>
            {" "}
            In the list: <kbd>j</kbd> next, <kbd>k</kbd> back
            {may("write") && (
              <>
                , <kbd>a</kbd> confirm, <kbd>r</kbd> retract
              </>
            )}
            .
          </>
        )}
      </p>
      {queue.error ? <Failure error={queue.error} retry={queue.retry} /> : null}
      <ul ref={box} className={css.queue} aria-label="Facts that wait for review" onKeyDown={press}>
        {items.map((fact, index) => (
          <li key={fact.id}>
            <Question
              fact={fact}
              index={index}
              actions={actions}
              settle={(decide) => settle(decide, index)}
              correct={() => correct(fact)}
            />
          </li>
        ))}
      </ul>
      {queue.loading && !items.length && <Loading label="Loading the review queue" />}
      {!items.length && !queue.loading && !queue.error && (
        <Empty title="Nothing to review">
          <p>Facts from tools and imports, and facts that may contradict another one, appear here.</p>
        </Empty>
      )}
      {queue.hasMore && (
        <button type="button" onClick={queue.more} disabled={queue.loading}>
          More
        </button>
      )}
    </>
  );
}

type QuestionProps = {
  fact: Fact;
  index: number;
  actions: FactActions;
  settle: (decide: () => Promise<void>) => void;
  correct: () => void;
};

/** One pending fact, or a fact beside the one that it may contradict. */
function Question({ fact, index, actions, settle, correct }: QuestionProps) {
  const { user, may } = useApp();
  const otherId = fact.conflicts_with;
  const other = useLoad<Fact | null>(
    async (signal) => {
      if (!otherId) return null;
      try {
        return await get("/api/facts/{id}", { path: { id: otherId }, query: { user }, signal });
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }
    },
    [otherId, user],
  );
  const older = other.data;
  const busy = actions.busy !== null;
  return (
    <article
      className={`card ${css.question}`}
      data-at={index}
      tabIndex={index === 0 ? 0 : -1}
      aria-label={older ? `Unclear: ${fact.statement}` : fact.statement}
    >
      <p className="quiet">About {subjectName(fact.subject, user)}</p>
      {other.error ? <Failure error={other.error} retry={other.reload} /> : null}
      {older ? (
        <div className={css.pair}>
          <Side title="Known before" fact={older} />
          <Side title="New" fact={fact} />
        </div>
      ) : (
        <>
          <p className={css.statement}>{fact.statement}</p>
          <FactInfo fact={fact}>
            <EvidenceLinks fact={fact} />
          </FactInfo>
        </>
      )}
      {may("write") && (
        <footer className="actions">
          <button type="button" disabled={busy} onClick={correct}>
            Correct
          </button>
          <button type="button" disabled={busy} onClick={() => settle(() => actions.retract(fact))}>
            {older ? "Keep only the old one" : "Retract"}
          </button>
          {older && (
            <button type="button" disabled={busy} onClick={() => settle(() => actions.retract(older))}>
              Keep only the new one
            </button>
          )}
          <button type="button" className="primary" disabled={busy} onClick={() => settle(() => actions.confirm(fact))}>
            {older ? "Both are true" : "Confirm"}
          </button>
        </footer>
      )}
    </article>
  );
}

function Side({ title, fact }: { title: string; fact: Fact }) {
  return (
    <section className={css.side}>
      <h3>{title}</h3>
      <p className={css.statement}>{fact.statement}</p>
      <FactInfo fact={fact}>
        <EvidenceLinks fact={fact} />
      </FactInfo>
    </section>
  );
}
