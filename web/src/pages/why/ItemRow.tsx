// One item of a context: what it is, why it is included, and its tokens; expanded, its text and a link to it.
import { useState } from "react";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { agentAt, entryAt, factAt, messageAt, notesOf, passageAt, stateAt } from "../../refs/places";
import { RefChip, RefText } from "../../refs/RefText";
import { label, leg, meaning, signed } from "../../refs/signals";
import { Hints } from "../../ui/Hints";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { count } from "../../ui/time";
import { hasText, lookUp, type PromptScope } from "./lookup";
import { type Reason, reasonOf } from "./reason";
import type { Item } from "./report";
import { areaOf, called, type Source, sourceOf } from "./source";
import css from "./why.module.css";

/** The texts of items: part of a preview, or requested on demand for a saved answer. */
export type ItemTexts = {
  scope: PromptScope;
  texts?: Record<string, string>;
  previews?: Record<string, string>;
  /** The names of other conversations, by their ids. */
  titles?: Record<string, string>;
};
type Props = { item: Item; maxTokens: number; texts: ItemTexts; isNew: boolean };

export function ItemRow({ item, maxTokens, texts, isNew }: Props) {
  const [open, setOpen] = useState(false);
  const source = sourceOf(item.source);
  const reason = reasonOf(item.reason);
  const text = texts.texts?.[item.source];
  const preview = text ?? texts.previews?.[item.source] ?? "";
  const openable = text !== undefined ? text !== "" : hasText(source);
  const line = (
    <>
      <span className={css.whyWhat}>
        <span className={source.kind === "ref" || source.kind === "state" ? `${css.whyName} ${css.mono}` : css.whyName}>
          {called(source, texts.titles)}
        </span>
        {isNew && <span className="chip accent">new</span>}
        <span className={css.whyBegins}>{open ? "" : preview.slice(0, 200)}</span>
      </span>
      <span className={css.whyReason}>
        {reason.score !== null && <span className="chip">score {reason.score.toFixed(2)}</span>}
        <span>{reason.words}</span>
      </span>
      <span className={css.whyCost}>
        <i aria-hidden="true" style={{ width: `${(100 * item.tokens) / maxTokens}%` }} />
        <span>
          {item.tokens ? count(item.tokens) : "–"}
          <span className="visually-hidden"> tokens</span>
        </span>
      </span>
    </>
  );
  const href = placeOf(source, texts.scope);
  if (!openable && !href) return <div className={css.whyItem}>{line}</div>;
  return (
    <details className={css.whyDetails} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className={css.whyItem}>{line}</summary>
      {open && (
        <div className={css.whyOpened}>
          {reason.score !== null && <RecallSignals reason={reason} />}
          {text !== undefined ? (
            <ItemText text={text} />
          ) : (
            openable && <LookedUpText source={source} scope={texts.scope} />
          )}
          {source.kind === "ref" ? (
            <RefChip refKey={source.key} description="Open the reference" />
          ) : (
            href && <Link href={href}>Open the original</Link>
          )}
        </div>
      )}
    </details>
  );
}

/** The retrievers that found a recalled item, and the signals of its score. */
function RecallSignals({ reason }: { reason: Reason }) {
  const legs = reason.legs.map((name) => ({ text: `by ${leg(name)}`, hint: `Found by ${leg(name)}.`, strong: true }));
  const neighbour = {
    text: "next to a match",
    hint: "It is right next to a message or passage that matches.",
    strong: true,
  };
  const signals = reason.signals.map(([name, value]) => ({
    text: `${label(name)} ${signed(value)}`,
    hint: meaning(name),
  }));
  return <Hints label="Why it was found" items={[...(reason.isNeighbour ? [neighbour] : legs), ...signals]} />;
}

function ItemText({ text }: { text: string }) {
  return (
    <pre className="plain">
      <RefText text={text} />
    </pre>
  );
}

function LookedUpText({ source, scope }: { source: Source; scope: PromptScope }) {
  const { user } = useApp();
  const lookup = useLoad((signal) => lookUp(source, { ...scope, user }, signal), [JSON.stringify(source), user]);
  if (lookup.error) return <Failure error={lookup.error} retry={lookup.reload} />;
  if (lookup.data === undefined) return <Loading />;
  if (lookup.data === null) return <p className="quiet">It was deleted.</p>;
  return (
    <>
      {lookup.data.changed && <p className="chip warn">{lookup.data.changed}</p>}
      {source.kind === "notes" && (
        <p className="quiet">The whole version; the context contained part {source.part} of it.</p>
      )}
      <ItemText text={lookup.data.text} />
    </>
  );
}

/** The address of a source in this app. */
function placeOf(source: Source, scope: PromptScope): string | null {
  switch (source.kind) {
    case "message":
      return messageAt(scope.agent, source.session ?? scope.session, source.seq);
    case "messages":
      return messageAt(scope.agent, scope.session, source.first);
    case "entry":
      return entryAt(scope.agent, source.id);
    case "fact":
      return factAt(source.id);
    case "state":
      return stateAt(areaOf(source.owner, scope.session), source.key);
    case "notes":
    case "section":
      return notesOf(scope.agent);
    case "agent":
      return agentAt(source.name);
    case "passage":
      return passageAt(source.document, source.seq);
    default:
      return null;
  }
}
