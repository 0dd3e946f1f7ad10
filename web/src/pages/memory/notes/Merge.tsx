// Resolve a conflict: your lines, their lines and the original side by side.
import { useId, useMemo, useState } from "react";
import { Dialog } from "../../../ui/Dialog";
import css from "../memory.module.css";
import { type Choice, type Chunk, compare, conflicts, merged } from "./threeway";
import { linesOf } from "./words";

type Shown = { base: string; mine: string; theirs: string; done: (text: string) => void; close: () => void };

export function Merge({ base, mine, theirs, done, close }: Shown) {
  const chunks = useMemo(() => compare(base, mine, theirs), [base, mine, theirs]);
  const [choices, setChoices] = useState<(Choice | undefined)[]>([]);
  const all = conflicts(chunks);
  const open = all - choices.filter(Boolean).length;
  const choose = (place: number, choice: Choice) =>
    setChoices((before) => Array.from({ length: all }, (_, at) => (at === place ? choice : before[at])));
  let place = 0;
  return (
    <Dialog title="Merge both changes" close={close} wide>
      <p>{all === 1 ? "One place was" : `${all} places were`} changed by both. Everything else is already merged.</p>
      <div className={css.chunks}>
        {chunks.map((chunk, at) =>
          chunk.kind === "conflict" ? (
            <Conflict key={at} chunk={chunk} number={place + 1} {...bound(place++)} />
          ) : (
            <Settled key={at} chunk={chunk} />
          ),
        )}
      </div>
      <footer className="actions">
        <p className={`quiet ${css.grow}`} role="status">
          {open > 0 &&
            `${open} still to choose: left as ${open === 1 ? "it is, it stands" : "they are, they stand"} in the text twice, marked.`}
        </p>
        <button type="button" onClick={close}>
          Not now
        </button>
        <button type="button" className="primary" onClick={() => done(merged(chunks, choices))}>
          Use this text
        </button>
      </footer>
    </Dialog>
  );

  function bound(at: number) {
    return { choice: choices[at], choose: (choice: Choice) => choose(at, choice) };
  }
}

type Asked = { chunk: Chunk; number: number; choice: Choice | undefined; choose: (choice: Choice) => void };
const SIDES = [
  ["mine", "Yours"],
  ["base", "What it was"],
  ["theirs", "Theirs"],
] as const;
const CHOICES = [
  ["mine", "Take yours"],
  ["theirs", "Use theirs"],
  ["all", "Keep both"],
] as const;

function Conflict({ chunk, number, choice, choose }: Asked) {
  const name = useId();
  return (
    <fieldset className={css.conflict}>
      <legend>Place {number}</legend>
      <div className={css.sides}>
        {SIDES.map(([side, label]) => (
          <section key={side} aria-label={label}>
            <h3>{label}</h3>
            <pre>{chunk[side].length ? chunk[side].join("\n") : "(nothing)"}</pre>
          </section>
        ))}
      </div>
      <div className="toolbar">
        {CHOICES.map(([value, label]) => (
          <label key={value} className="check">
            <input type="radio" name={name} checked={choice === value} onChange={() => choose(value)} /> {label}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** What needs no choice: shown in a line or two, so that one knows where one is. */
function Settled({ chunk }: { chunk: Chunk }) {
  if (chunk.kind === "same") {
    const shown = chunk.base.slice(-2).filter((line) => line.trim());
    return (
      <pre className={css.same}>
        {chunk.base.length > 2 ? `… ${linesOf(chunk.base.length)}\n` : ""}
        {shown.join("\n")}
      </pre>
    );
  }
  const side = chunk.kind === "theirs" ? "theirs" : "mine";
  return (
    <div className={css.diff}>
      <p className="quiet">
        {chunk.kind === "both" ? "Changed by both" : side === "mine" ? "You did this" : "They did this"}
      </p>
      {chunk.base.map((line, at) => (
        <code key={`-${at}`} className={css.removed}>
          - {line}
        </code>
      ))}
      {chunk[side].map((line, at) => (
        <code key={`+${at}`} className={css.added}>
          + {line}
        </code>
      ))}
    </div>
  );
}
