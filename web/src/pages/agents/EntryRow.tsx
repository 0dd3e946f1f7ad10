// One entry: content, kind, author, time, remaining lifetime and actions.
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Entry } from "../../api";
import { useWho } from "../../app/who";
import { Icon } from "../../ui/Icon";
import { Time, useNow } from "../../ui/time";
import css from "./agents.module.css";
import { EntryEdit } from "./EntryEdit";
import type { Editing } from "./editing";
import { faded, fading, inked, life } from "./fade";

type Shown = {
  entry: Entry;
  editing: Editing;
  took: (entry: Entry) => void;
  remove: (entry: Entry) => void;
  review?: (entry: Entry, verdict: "accept" | "refuse") => void;
  /** A box to pick it with. */
  before?: ReactNode;
  /** What is said first of it, where that is not its kind. */
  title?: string;
  whose?: boolean;
};

const LONG = 700;

export function EntryRow({ entry, editing, took, remove, review, before, title, whose = false }: Shown) {
  const { may } = useWho();
  const now = useNow(60);
  const edited = editing.of(entry.id);
  const pen = useRef<HTMLButtonElement>(null);
  const wrote = useRef(false);
  useEffect(() => {
    // The form that had the focus is gone: whoever goes by keyboard goes on where they began.
    if (wrote.current && !edited && document.activeElement === document.body) pen.current?.focus();
    wrote.current = !!edited;
  }, [edited]);
  const gone = faded(entry, now);
  const left = gone ? null : life(entry, now);
  const about = entry.content.slice(0, 40);
  return (
    <article className={gone ? `${css.entry} ${css.gone}` : css.entry} aria-label={`${entry.kind}: ${about}`}>
      {before}
      <i className={entry.kind === "journal" ? `${css.entryBar} ${css.journal}` : css.entryBar} aria-hidden="true">
        <i style={{ height: `${Math.round((gone ? 0 : (left ?? 1)) * 100)}%` }} />
      </i>
      <div className={css.entryBody}>
        <p className={css.entryFacts}>
          <b className={css.entryKind}>{title ?? entry.kind}</b> <Time at={entry.created_at} />
          {entry.expires_at && (gone ? <span className="chip">{fading(entry, now)}</span> : fading(entry, now))}
          <span className="chip" title="Who wrote it">
            {entry.source}
          </span>
          {whose && <span className="chip">{entry.user ? `with ${entry.user}` : "with everybody"}</span>}
          {entry.version > 1 && (
            <span>
              edited <Time at={entry.updated_at} />
            </span>
          )}
          {entry.review === "pending" && <span className="chip warn">waiting for review</span>}
          {entry.review === "refused" && <span className="chip bad">refused</span>}
        </p>
        {edited ? (
          <EntryEdit entry={entry} edited={edited} editing={editing} took={took} />
        ) : (
          <Content text={entry.content} color={inked(left)} />
        )}
        {entry.review === "pending" && review && may("write") && (
          <p className={css.entryReview}>
            <span className="quiet">
              It reaches no prompt until somebody accepts it.
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
              ref={pen}
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

/** Text as it is; a long one is folded. */
function Content({ text, color }: { text: string; color?: string }) {
  const [open, setOpen] = useState(false);
  const long = text.length > LONG || text.split("\n").length > 8;
  return (
    <>
      <p className={long && !open ? `${css.entryText} ${css.folded}` : css.entryText} style={{ color }}>
        {text}
      </p>
      {long && (
        <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Show less" : "Show all of it"}
        </button>
      )}
    </>
  );
}
