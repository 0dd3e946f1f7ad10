// One fact: what is known, when it is true, the messages that say so, and the actions on it.
import { type ReactNode, useId, useState } from "react";
import type { Fact } from "../../../api/index";
import { useApp } from "../../../app/context";
import { to } from "../../../app/route";
import { messageAt } from "../../../refs/places";
import { Icon } from "../../../ui/Icon";
import { Link } from "../../../ui/Link";
import { Time } from "../../../ui/time";
import type { FactActions } from "./actions";
import { FactDetails } from "./FactDetails";
import { isPast, originName, TOPICS, validity } from "./fact";
import css from "./facts.module.css";

const SHOWN_EVIDENCE = 3;

type Props = {
  fact: Fact;
  actions: FactActions;
  correct: (fact: Fact) => void;
  forget: (fact: Fact) => void;
  /** It may contradict another fact; a person decides in the review queue. */
  unclear?: boolean;
  /** Show the details from the start. */
  expanded?: boolean;
};

export function FactRow({ fact, actions, correct, forget, unclear = false, expanded = false }: Props) {
  const { may } = useApp();
  const [open, setOpen] = useState(expanded);
  const id = useId();
  const isCurrent = fact.status === "active" || fact.status === "pending";
  const busy = actions.busy === fact.id;
  return (
    <article className={isPast(fact) ? `${css.fact} ${css.past}` : css.fact} aria-label={fact.statement}>
      <div className={css.body}>
        <p className={css.statement}>{fact.statement}</p>
        <FactInfo fact={fact}>
          <EvidenceLinks fact={fact} showAll={() => setOpen(true)} />
          {unclear && (
            <Link className="chip warn" href={to(["memory", "facts"], { view: "review" })}>
              may contradict another
            </Link>
          )}
        </FactInfo>
      </div>
      <div className={css.acts}>
        {may("write") && isCurrent && (
          <>
            {!fact.confirmed && (
              <Action icon="check" label="Confirm" fact={fact} busy={busy} run={() => actions.confirm(fact)} />
            )}
            <Action icon="edit" label="Correct" fact={fact} busy={busy} run={() => correct(fact)} />
            <Action icon="close" label="Retract" fact={fact} busy={busy} run={() => actions.retract(fact)} />
          </>
        )}
        <button
          type="button"
          className="icon"
          aria-expanded={open}
          aria-controls={open ? id : undefined}
          aria-label={`History: ${fact.statement}`}
          title="Evidence and history"
          onClick={() => setOpen(!open)}
        >
          <Icon name="history" />
        </button>
      </div>
      {open && (
        <div id={id} className={css.details}>
          <FactDetails fact={fact} actions={actions} forget={() => forget(fact)} />
        </div>
      )}
    </article>
  );
}

type ActionProps = { icon: "check" | "edit" | "close"; label: string; fact: Fact; busy: boolean; run: () => void };

function Action({ icon, label, fact, busy, run }: ActionProps) {
  return (
    <button
      type="button"
      className="icon"
      aria-label={`${label}: ${fact.statement}`}
      title={HINTS[label]}
      disabled={busy}
      onClick={run}
    >
      <Icon name={icon} />
    </button>
  );
}

const HINTS: Record<string, string> = {
  Confirm: "Confirm: only a person can change it then",
  Correct: "Correct",
  Retract: "Retract: it is not true",
};

/** What is known about a fact besides its words. */
export function FactInfo({ fact, children }: { fact: Fact; children?: ReactNode }) {
  const period = validity(fact);
  return (
    <p className={css.info}>
      {fact.status === "pending" && <span className="chip warn">waiting for review</span>}
      {fact.status === "replaced" && <span className="chip">replaced</span>}
      {fact.status === "retracted" && <span className="chip bad">retracted</span>}
      {fact.confirmed && <span className="chip accent">confirmed</span>}
      {fact.topic !== "other" && <span className="chip">{TOPICS[fact.topic]}</span>}
      {period && <span>{period}</span>}
      <span>
        <Time at={fact.learned_at} />, from {originName(fact)}
      </span>
      {children}
    </p>
  );
}

/** Links to the messages that a fact comes from. */
export function EvidenceLinks({ fact, showAll }: { fact: Fact; showAll?: () => void }) {
  const hidden = fact.evidence.length - SHOWN_EVIDENCE;
  return (
    <>
      {fact.evidence.slice(0, SHOWN_EVIDENCE).map(({ session, seq }) => (
        <Link key={`${session} ${seq}`} href={messageAt(fact.agent ?? "assistant", session, seq)}>
          Message {seq}
        </Link>
      ))}
      {hidden > 0 && showAll && (
        <button type="button" className="link" onClick={showAll}>
          and {hidden} more
        </button>
      )}
    </>
  );
}
