// One pending entry: its text verbatim, without links or images, and the marks of suspicious content.
import { useState } from "react";
import type { Entry } from "../../api/index";
import { Time } from "../../ui/time";
import css from "./operations.module.css";
import { SIGNS, visible } from "./visible";

type Shown = {
  entry: Entry;
  place: number;
  here: boolean;
  chosen: boolean;
  wrong?: string;
  busy: boolean;
  come: () => void;
  pick: () => void;
  accept?: () => void;
  refuse?: () => void;
};
const LONG = 600;

export function Waiting({ entry, place, here, chosen, wrong, busy, come, pick, accept, refuse }: Shown) {
  const [whole, setWhole] = useState(false);
  const long = entry.content.length > LONG;
  const text = long && !whole ? entry.content.slice(0, LONG) : entry.content;
  const what = entry.kind === "whiteboard" ? `whiteboard ${entry.board}` : entry.kind;
  return (
    <article
      className={`${css.waiting} card`}
      data-at={place}
      aria-current={here || undefined}
      aria-label={`${what} of ${entry.agent}`}
      tabIndex={here ? 0 : -1}
      onFocus={come}
    >
      <header>
        <label className="check">
          <input type="checkbox" checked={chosen} onChange={pick} aria-label="Select" />
        </label>
        <b>{entry.agent}</b>
        <span className="chip">{what}</span>
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
            {!whole && "… "}
            <button type="button" className="link" onClick={() => setWhole(!whole)}>
              {whole ? "Show less" : "Show all"}
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
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </article>
  );
}
