// One item of a context: what it is, why it is included, and its tokens; expanded, its text and a link to it.
import { useState } from "react";
import { useLoad } from "../../api/load";
import { useWho } from "../../app/who";
import { agentAt, entryAt, messageAt, notesOf, passageAt, stateAt } from "../../refs/places";
import { RefChip, RefText } from "../../refs/RefText";
import { leg, meaning, signed } from "../../refs/signals";
import { Hints } from "../../ui/Hints";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { count } from "../../ui/time";
import { hasText, lookUp, type Where } from "./lookup";
import { type Reason, reasonOf } from "./reason";
import type { Item } from "./report";
import { areaOf, called, type Source, sourceOf } from "./source";
import css from "./why.module.css";

/** How the texts are had: a preview brings them, those of a saved answer are looked up when somebody wants to see one. */
export type Reading = {
  where: Where;
  texts?: Record<string, string>;
  begins?: Record<string, string>;
  /** The names of other conversations, by their ids. */
  titles?: Record<string, string>;
};
type Shown = { item: Item; most: number; reading: Reading; isNew: boolean };

export function ItemRow({ item, most, reading, isNew }: Shown) {
  const [open, setOpen] = useState(false);
  const source = sourceOf(item.source);
  const reason = reasonOf(item.reason);
  const text = reading.texts?.[item.source];
  const begins = text ?? reading.begins?.[item.source] ?? "";
  const openable = text !== undefined ? text !== "" : hasText(source);
  const line = (
    <>
      <span className={css.whyWhat}>
        <span className={source.kind === "ref" || source.kind === "state" ? `${css.whyName} ${css.mono}` : css.whyName}>
          {called(source, reading.titles)}
        </span>
        {isNew && <span className="chip accent">came in</span>}
        <span className={css.whyBegins}>{open ? "" : begins.slice(0, 200)}</span>
      </span>
      <span className={css.whyReason}>
        {reason.score !== null && <span className="chip">score {reason.score.toFixed(2)}</span>}
        <span>{reason.words}</span>
      </span>
      <span className={css.whyCost}>
        <i aria-hidden="true" style={{ width: `${(100 * item.tokens) / most}%` }} />
        <span>
          {item.tokens ? count(item.tokens) : "–"}
          <span className="visually-hidden"> tokens</span>
        </span>
      </span>
    </>
  );
  const place = placeOf(source, reading.where);
  if (!openable && !place) return <div className={css.whyItem}>{line}</div>;
  return (
    <details className={css.whyDetails} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className={css.whyItem}>{line}</summary>
      {open && (
        <div className={css.whyOpened}>
          {reason.score !== null && <Found reason={reason} />}
          {text !== undefined ? <Said text={text} /> : openable && <Looked source={source} where={reading.where} />}
          {source.kind === "ref" ? (
            <RefChip refKey={source.key} description="Open the stored output" />
          ) : (
            place && <Link href={place}>Open the original</Link>
          )}
        </div>
      )}
    </details>
  );
}

/** Which legs found what was recalled, and what made its score. */
function Found({ reason }: { reason: Reason }) {
  const legs = reason.legs.map((name) => ({ text: `by ${leg(name)}`, hint: `Found by ${leg(name)}.`, strong: true }));
  const beside = { text: "next to a match", hint: "It stands right beside something that was found.", strong: true };
  const signals = reason.signals.map(([name, value]) => ({ text: `${name} ${signed(value)}`, hint: meaning(name) }));
  return <Hints label="Why it was found" items={[...(reason.beside ? [beside] : legs), ...signals]} />;
}

function Said({ text }: { text: string }) {
  return (
    <pre className="plain">
      <RefText text={text} />
    </pre>
  );
}

function Looked({ source, where }: { source: Source; where: Where }) {
  const { user } = useWho();
  const looked = useLoad((signal) => lookUp(source, { ...where, user }, signal), [JSON.stringify(source), user]);
  if (looked.error) return <Failure error={looked.error} retry={looked.reload} />;
  if (looked.data === undefined) return <Loading />;
  if (looked.data === null) return <p className="quiet">It is no longer there.</p>;
  return (
    <>
      {looked.data.changed && <p className="chip warn">{looked.data.changed}</p>}
      {source.kind === "notes" && <p className="quiet">All of that version; part {source.part} of it was given.</p>}
      <Said text={looked.data.text} />
    </>
  );
}

/** Where it lives in this app. */
function placeOf(source: Source, where: Where): string | null {
  switch (source.kind) {
    case "message":
      return messageAt(where.agent, source.session ?? where.session, source.seq);
    case "messages":
      return messageAt(where.agent, where.session, source.first);
    case "entry":
      return entryAt(where.agent, source.id);
    case "state":
      return stateAt(areaOf(source.owner, where.session), source.key);
    case "notes":
    case "section":
      return notesOf(where.agent);
    case "agent":
      return agentAt(source.name);
    case "passage":
      return passageAt(source.document, source.seq);
    default:
      return null;
  }
}
