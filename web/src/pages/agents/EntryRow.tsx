// One entry: content, kind, author, time, remaining lifetime and actions.
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Entry } from "../../api";
import { useApp } from "../../app/context";
import { Icon } from "../../ui/Icon";
import { Time, useNow } from "../../ui/time";
import css from "./agents.module.css";
import { EntryEdit } from "./EntryEdit";
import type { Editing } from "./editing";
import { faded, fading, inked, life } from "./fade";

type Props = {
  entry: Entry;
  editing: Editing;
  onSaved: (entry: Entry) => void;
  remove: (entry: Entry) => void;
  review?: (entry: Entry, verdict: "accept" | "refuse") => void;
  /** A checkbox that selects the entry. */
  prefix?: ReactNode;
  /** The label to show instead of the kind. */
  title?: string;
  showOwner?: boolean;
};

const FOLD_CHARACTERS = 700;

export function EntryRow({ entry, editing, onSaved, remove, review, prefix, title, showOwner = false }: Props) {
  const { may } = useApp();
  const now = useNow(60);
  const edited = editing.of(entry.id);
  const editButton = useRef<HTMLButtonElement>(null);
  const wrote = useRef(false);
  useEffect(() => {
    // The focused form was removed: return the focus to the button that opened it.
    if (wrote.current && !edited && document.activeElement === document.body) editButton.current?.focus();
    wrote.current = !!edited;
  }, [edited]);
  const hasFaded = faded(entry, now);
  const fraction = hasFaded ? null : life(entry, now);
  const about = entry.content.slice(0, 40);
  return (
    <article className={hasFaded ? `${css.entry} ${css.gone}` : css.entry} aria-label={`${entry.kind}: ${about}`}>
      {prefix}
      <i className={entry.kind === "journal" ? `${css.entryBar} ${css.journal}` : css.entryBar} aria-hidden="true">
        <i style={{ height: `${Math.round((hasFaded ? 0 : (fraction ?? 1)) * 100)}%` }} />
      </i>
      <div className={css.entryBody}>
        <p className={css.entryFacts}>
          <b className={css.entryKind}>{title ?? entry.kind}</b> <Time at={entry.created_at} />
          {entry.expires_at && (hasFaded ? <span className="chip">{fading(entry, now)}</span> : fading(entry, now))}
          <span className="chip" title="Who wrote it">
            {entry.source}
          </span>
          {showOwner && <span className="chip">{entry.user ? `with ${entry.user}` : "with everybody"}</span>}
          {entry.version > 1 && (
            <span>
              edited <Time at={entry.updated_at} />
            </span>
          )}
          {entry.review === "pending" && <span className="chip warn">waiting for review</span>}
          {entry.review === "refused" && <span className="chip bad">refused</span>}
        </p>
        {edited ? (
          <EntryEdit entry={entry} edited={edited} editing={editing} onSaved={onSaved} />
        ) : (
          <Content text={entry.content} color={inked(fraction)} />
        )}
        {entry.review === "pending" && review && may("write") && (
          <p className={css.entryReview}>
            <span className="quiet">
              Not part of any prompt until a person accepts it.
              {entry.signs.length > 0 && ` Warnings: ${entry.signs.join(", ")}.`}
            </span>
            <button type="button" onClick={() => review(entry, "accept")}>
              Accept
            </button>
            <button type="button" onClick={() => review(entry, "refuse")}>
              Refuse
            </button>
          </p>
        )}
      </div>
      {!edited && (
        <div className={css.entryActs}>
          {may("write") && (
            <button
              ref={editButton}
              type="button"
              className="icon"
              aria-label={`Edit: ${about}`}
              onClick={() => editing.start(entry)}
            >
              <Icon name="edit" />
            </button>
          )}
          {may("delete") && (
            <button type="button" className="icon" aria-label={`Delete: ${about}`} onClick={() => remove(entry)}>
              <Icon name="remove" />
            </button>
          )}
        </div>
      )}
    </article>
  );
}

/** The text verbatim; a long text is collapsed. */
function Content({ text, color }: { text: string; color?: string }) {
  const [open, setOpen] = useState(false);
  const long = text.length > FOLD_CHARACTERS || text.split("\n").length > 8;
  return (
    <>
      <p className={long && !open ? `${css.entryText} ${css.folded}` : css.entryText} style={{ color }}>
        {text}
      </p>
      {long && (
        <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Show less" : "Show all"}
        </button>
      )}
    </>
  );
}
