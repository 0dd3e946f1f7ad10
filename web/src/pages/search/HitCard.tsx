// One search hit: what it is, where it is stored, why it matched, with the query words marked.
import { memo, useState } from "react";
import type { Hit } from "../../api/index";
import { entryAt, factAt, messageAt, notesOf, passageAt, stateAt } from "../../refs/places";
import { label, leg, meaning, signed, strongest } from "../../refs/signals";
import { Hints } from "../../ui/Hints";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/time";
import { marked } from "./marks";
import { type Kind, TITLES } from "./query";
import css from "./search.module.css";

const SHOWN = 360;
const NEIGHBOUR_CHARACTERS = 140;
export type SessionNames = Record<string, { agent: string; label: string }>;
type Props = { hit: Hit; question: string; sessions: SessionNames; openRef: (key: string) => void };

export const HitCard = memo(function HitCard({ hit, question, sessions, openRef }: Props) {
  const [showWhole, setShowWhole] = useState(false);
  const long = hit.text.length > SHOWN;
  const session = hit.session ? sessions[hit.session] : undefined;
  return (
    <article className={css.hit}>
      <header>
        <span className="chip">{TITLES[hit.kind as Kind] ?? hit.kind}</span>
        <h2>
          {hit.kind === "refs" ? (
            <button type="button" className="link" data-hit onClick={() => openRef(hit.id)}>
              {hit.title || hit.id}
            </button>
          ) : (
            <Link href={placeOf(hit, sessions)} data-hit>
              {titleOf(hit)}
            </Link>
          )}
        </h2>
        <span className="quiet">
          {session && `in ${session.label} · `}
          <Time at={hit.at} />
        </span>
        <span className={css.hitScore} title="Estimated relevance, from 0 to 1">
          <i aria-hidden="true">
            <b style={{ width: `${Math.round(hit.score * 100)}%` }} />
          </i>
          <span className="visually-hidden">score </span>
          {hit.score.toFixed(2)}
        </span>
      </header>
      {hit.before && <p className={css.hitBeside}>{hit.before.slice(-NEIGHBOUR_CHARACTERS)}</p>}
      <p className={css.hitText}>
        {marked(hit.text, question, showWhole ? undefined : SHOWN).map((piece, index) =>
          piece.marked ? <mark key={index}>{piece.text}</mark> : piece.text,
        )}
        {long && (
          <button type="button" className={`link ${css.hitMore}`} onClick={() => setShowWhole(!showWhole)}>
            {showWhole ? "Show less" : "Show all"}
          </button>
        )}
      </p>
      {hit.newer_statement && <p className="quiet">({hit.newer_statement})</p>}
      {hit.after && <p className={css.hitBeside}>{hit.after.slice(0, NEIGHBOUR_CHARACTERS)}</p>}
      <footer>
        <details>
          <summary>Why this hit</summary>
          <Hints label="Why it was found" items={whyOf(hit)} />
        </details>
        {hit.same > 0 && <span className="quiet">and {hit.same} more with the same text</span>}
      </footer>
    </article>
  );
});

function whyOf(hit: Hit) {
  const legs = hit.legs.length
    ? hit.legs.map((name) => ({ text: `by ${leg(name)}`, hint: legHint(name, hit), strong: true }))
    : [{ text: "next to a match", hint: "It is right next to a message or passage that matches.", strong: true }];
  return [
    ...legs,
    ...strongest(hit.why).map(([name, value]) => ({ text: `${label(name)} ${signed(value)}`, hint: meaning(name) })),
  ];
}

function legHint(name: string, hit: Hit): string {
  if (name !== "vectors") return "It contains words of the question.";
  return `It is near in meaning${hit.near === null ? "." : `: a cosine of ${hit.near.toFixed(2)}.`}`;
}

function titleOf(hit: Hit): string {
  switch (hit.kind) {
    case "messages":
      return `${hit.author || (hit.role === "user" ? "The user" : hit.role)} said`;
    case "entries":
      return hit.role === "whiteboard" ? `${hit.author} on a whiteboard` : `${hit.author}’s ${hit.role}`;
    case "facts":
      return `About ${hit.title || "the user"}`;
    case "notes":
      return hit.title || `Notes of ${hit.author}`;
    default:
      return hit.title || hit.id;
  }
}

function placeOf(hit: Hit, sessions: SessionNames): string {
  switch (hit.kind) {
    case "messages":
      return messageAt(sessions[hit.id]?.agent ?? "assistant", hit.id, hit.seq);
    case "facts":
      return factAt(hit.id);
    case "entries":
      return entryAt(hit.author, hit.id);
    case "notes":
      return notesOf(hit.author);
    case "state": {
      const [area = "user"] = JSON.parse(hit.id) as string[];
      return stateAt(area.startsWith("session:") ? area : (area.split(":")[0] ?? "user"), hit.title);
    }
    default:
      return passageAt(hit.id, hit.seq);
  }
}
