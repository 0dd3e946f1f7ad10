// One pending entry: its text verbatim, without links or images, and the marks of suspicious content.
import { useState } from "react";
import type { Entry } from "../../api/index";
import { Time } from "../../ui/time";
import css from "./operations.module.css";
import { SIGNS, visible } from "./visible";

type Props = {
  entry: Entry;
  index: number;
  current: boolean;
  selected: boolean;
  error?: string;
  busy: boolean;
  come: () => void;
  pick: () => void;
  accept?: () => void;
  refuse?: () => void;
};
const FOLD_CHARACTERS = 600;

export function ReviewItem({ entry, index, current, selected, error, busy, come, pick, accept, refuse }: Props) {
  const [expanded, setExpanded] = useState(false);
  const long = entry.content.length > FOLD_CHARACTERS;
  const text = long && !expanded ? entry.content.slice(0, FOLD_CHARACTERS) : entry.content;
  const label = entry.kind === "whiteboard" ? `whiteboard ${entry.board}` : entry.kind;
  return (
    <article
      className={`${css.waiting} card`}
      data-at={index}
      aria-current={current || undefined}
      aria-label={`${label} of ${entry.agent}`}
      tabIndex={current ? 0 : -1}
      onFocus={come}
    >
      <header>
        <label className="check">
          <input type="checkbox" checked={selected} onChange={pick} aria-label="Select" />
        </label>
        <b>{entry.agent}</b>
        <span className="chip">{label}</span>
        <span className="chip warn">from {entry.source}</span>
        {entry.user && <span className="quiet">for {entry.user}</span>}
        <span className="quiet">
          <Time at={entry.created_at} />
        </span>
        {(accept || refuse) && (
          <div className="toolbar">
            {accept && (
              <button type="button" disabled={busy} onClick={accept}>
                Accept
              </button>
            )}
            {refuse && (
              <button type="button" className="danger" disabled={busy} onClick={refuse}>
                Refuse
              </button>
            )}
          </div>
        )}
      </header>
      <p className={css.waitingText}>
        {visible(text).map((part, nth) =>
          part.hidden ? <mark key={nth}>{part.text}</mark> : <span key={nth}>{part.text}</span>,
        )}
        {long && (
          <>
            {!expanded && "… "}
            <button type="button" className="link" onClick={() => setExpanded(!expanded)}>
              {expanded ? "Show less" : "Show all"}
            </button>
          </>
        )}
      </p>
      {entry.signs.length > 0 && (
        <ul className={css.signs} aria-label="Warnings">
          {entry.signs.map((sign) => (
            <li key={sign}>
              <span className="chip bad">{sign}</span> {SIGNS[sign] ?? ""}
            </li>
          ))}
        </ul>
      )}
      {error && (
        <p className="wrong" role="alert">
          {error}
        </p>
      )}
    </article>
  );
}
