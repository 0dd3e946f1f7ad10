// Resolve a conflict: your lines, their lines and the original side by side.
import { useId, useMemo, useState } from "react";
import { Dialog } from "../../../ui/Dialog";
import css from "../memory.module.css";
import { type Choice, type Chunk, compare, conflicts, merged } from "./threeway";
import { linesOf } from "./words";

type Props = { base: string; mine: string; theirs: string; done: (text: string) => void; close: () => void };

export function Merge({ base, mine, theirs, done, close }: Props) {
  const chunks = useMemo(() => compare(base, mine, theirs), [base, mine, theirs]);
  const [choices, setChoices] = useState<(Choice | undefined)[]>([]);
  const conflictCount = conflicts(chunks);
  const open = conflictCount - choices.filter(Boolean).length;
  const choose = (conflict: number, choice: Choice) =>
    setChoices((previous) => Array.from({ length: conflictCount }, (_, i) => (i === conflict ? choice : previous[i])));
  let conflict = 0;
  return (
    <Dialog title="Merge both changes" close={close} wide>
      <p>
        {conflictCount === 1 ? "One passage was" : `${conflictCount} passages were`} changed by both of you. Everything
        else is already merged.
      </p>
      <div className={css.chunks}>
        {chunks.map((chunk, index) =>
          chunk.kind === "conflict" ? (
            <Conflict key={index} chunk={chunk} number={conflict + 1} {...bound(conflict++)} />
          ) : (
            <ResolvedChunk key={index} chunk={chunk} />
          ),
        )}
      </div>
      <footer className="actions">
        <p className={`quiet ${css.grow}`} role="status">
          {open > 0 &&
            `${open} not decided yet: without a decision, the text contains both versions, marked as a conflict.`}
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

  function bound(index: number) {
    return { choice: choices[index], choose: (choice: Choice) => choose(index, choice) };
  }
}

type ConflictProps = { chunk: Chunk; number: number; choice: Choice | undefined; choose: (choice: Choice) => void };
const SIDES = [
  ["mine", "Yours"],
  ["base", "Original"],
  ["theirs", "Theirs"],
] as const;
const CHOICES = [
  ["mine", "Use yours"],
  ["theirs", "Use theirs"],
  ["all", "Keep both"],
] as const;

function Conflict({ chunk, number, choice, choose }: ConflictProps) {
  const name = useId();
  return (
    <fieldset className={css.conflict}>
      <legend>Conflict {number}</legend>
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

/** Lines without a conflict, shortened to a line or two of context. */
function ResolvedChunk({ chunk }: { chunk: Chunk }) {
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
        {chunk.kind === "both" ? "Changed by both" : side === "mine" ? "Your change" : "Their change"}
      </p>
      {chunk.base.map((line, index) => (
        <code key={`-${index}`} className={css.removed}>
          - {line}
        </code>
      ))}
      {chunk[side].map((line, index) => (
        <code key={`+${index}`} className={css.added}>
          + {line}
        </code>
      ))}
    </div>
  );
}
