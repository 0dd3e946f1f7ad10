// The notes, rendered, with recent changes marked and an outline.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useApp } from "../../../app/context";
import { Icon } from "../../../ui/Icon";
import { Changed, Markdown } from "../../../ui/Markdown";
import { Empty } from "../../../ui/states";
import { Time } from "../../../ui/time";
import css from "../memory.module.css";
import { difference } from "./diff";
import type { Change, Live, Text } from "./live";
import { linesOf, operationName, sourceName } from "./words";

export function Reader({ agent, live, note, edit }: { agent: string; live: Live; note: Text; edit: () => void }) {
  const { may } = useApp();
  const { change } = live;
  const box = useRef<HTMLElement>(null);
  const diff = useMemo(() => change && difference(change.before, note.text), [change, note.text]);
  const show = () => box.current?.querySelector(".changed")?.scrollIntoView({ block: "center" });
  return (
    <>
      <div role="status">
        {change && diff && (
          <ChangeNotice change={change} added={diff.added} removed={diff.removed} show={show} onSeen={live.markSeen} />
        )}
      </div>
      {note.text.trim() === "" ? (
        <Empty title="No notes yet">
          <p>
            Here {agent} writes down what it should know about you for good: preferences, standing instructions, facts.
            Tell it something worth keeping{may("write") ? ", or write the first lines yourself." : "."}
          </p>
          {may("write") && (
            <button type="button" className="primary" onClick={edit}>
              <Icon name="edit" /> Write notes
            </button>
          )}
        </Empty>
      ) : (
        <div className={css.notes}>
          <Outline text={note.text} box={box} />
          <article className="card" ref={box} aria-label="Notes">
            <Changed value={diff?.changed ?? null}>
              <Markdown text={note.text} />
            </Changed>
          </article>
        </div>
      )}
    </>
  );
}

type Mark = { change: Change; added: number; removed: number; show: () => void; onSeen: () => void };

function ChangeNotice({ change, added, removed, show, onSeen }: Mark) {
  const parts = [added && `${linesOf(added)} added`, removed && `${linesOf(removed)} removed`].filter(Boolean);
  return (
    <div className={css.notice}>
      <p>
        <b>
          {operationName(change.operation)} by {sourceName(change.by)}
        </b>{" "}
        <Time at={change.at} />
        {parts.length > 0 && <>: {parts.join(", ")}</>}
      </p>
      {added > 0 && (
        <button type="button" className="plain" onClick={show}>
          Show
        </button>
      )}
      <button type="button" className="plain" onClick={onSeen}>
        <Icon name="check" /> Seen
      </button>
    </div>
  );
}

type Heading = { text: string; depth: number };

/** The headings that are shown, taken from the page itself, so that both always agree. */
function Outline({ text, box }: { text: string; box: React.RefObject<HTMLElement | null> }) {
  const [headings, setHeadings] = useState<Heading[]>([]);
  const findHeadings = useCallback(
    () => [...(box.current?.querySelectorAll<HTMLElement>("h3, h4, h5, h6") ?? [])],
    [box],
  );
  useEffect(() => {
    setHeadings(
      findHeadings().map((heading) => ({ text: heading.textContent ?? "", depth: Number(heading.tagName[1]) - 3 })),
    );
  }, [text, findHeadings]);
  if (headings.length < 2) return null;
  const jump = (index: number) => {
    const heading = findHeadings()[index];
    if (!heading) return;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: "start" });
  };
  return (
    <nav className={css.outline} aria-label="Sections">
      <details open={matchMedia("(min-width: 47.5rem)").matches}>
        <summary>Sections</summary>
        {headings.map((heading, index) => (
          <button
            key={index}
            type="button"
            className="plain"
            style={{ paddingLeft: `${0.5 + heading.depth * 0.75}rem` }}
            onClick={() => jump(index)}
          >
            {heading.text}
          </button>
        ))}
      </details>
    </nav>
  );
}
