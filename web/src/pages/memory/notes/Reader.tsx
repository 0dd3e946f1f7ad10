// The notes, rendered, with recent changes marked and an outline.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useWho } from "../../../app/who";
import { Icon } from "../../../ui/Icon";
import { Changed, Markdown } from "../../../ui/Markdown";
import { Empty } from "../../../ui/states";
import { Time } from "../../../ui/time";
import css from "../memory.module.css";
import { difference } from "./diff";
import type { Change, Live, Text } from "./live";
import { how, linesOf, who } from "./words";

export function Reader({ agent, live, note, edit }: { agent: string; live: Live; note: Text; edit: () => void }) {
  const { may } = useWho();
  const { change } = live;
  const box = useRef<HTMLElement>(null);
  const told = useMemo(() => change && difference(change.before, note.text), [change, note.text]);
  const show = () => box.current?.querySelector(".changed")?.scrollIntoView({ block: "center" });
  return (
    <>
      <div role="status">
        {change && told && (
          <Told change={change} added={told.added} removed={told.removed} show={show} seen={live.seen} />
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
            <Changed value={told?.changed ?? null}>
              <Markdown text={note.text} />
            </Changed>
          </article>
        </div>
      )}
    </>
  );
}

type Mark = { change: Change; added: number; removed: number; show: () => void; seen: () => void };

function Told({ change, added, removed, show, seen }: Mark) {
  const parts = [added && `${linesOf(added)} added`, removed && `${linesOf(removed)} removed`].filter(Boolean);
  return (
    <div className={css.notice}>
      <p>
        <b>
          {how(change.operation)} by {who(change.by)}
        </b>{" "}
        <Time at={change.at} />
        {parts.length > 0 && <>: {parts.join(", ")}</>}
      </p>
      {added > 0 && (
        <button type="button" className="plain" onClick={show}>
          Show
        </button>
      )}
      <button type="button" className="plain" onClick={seen}>
        <Icon name="check" /> Seen
      </button>
    </div>
  );
}

type Heading = { text: string; depth: number };

/** The headings that are shown, taken from the page itself, so that both always agree. */
function Outline({ text, box }: { text: string; box: React.RefObject<HTMLElement | null> }) {
  const [headings, setHeadings] = useState<Heading[]>([]);
  const all = useCallback(() => [...(box.current?.querySelectorAll<HTMLElement>("h3, h4, h5, h6") ?? [])], [box]);
  useEffect(() => {
    setHeadings(all().map((one) => ({ text: one.textContent ?? "", depth: Number(one.tagName[1]) - 3 })));
  }, [text, all]);
  if (headings.length < 2) return null;
  const jump = (place: number) => {
    const heading = all()[place];
    if (!heading) return;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: "start" });
  };
  return (
    <nav className={css.outline} aria-label="Sections">
      <details open={matchMedia("(min-width: 47.5rem)").matches}>
        <summary>Sections</summary>
        {headings.map((heading, place) => (
          <button
            key={place}
            type="button"
            className="plain"
            style={{ paddingLeft: `${0.5 + heading.depth * 0.75}rem` }}
            onClick={() => jump(place)}
          >
            {heading.text}
          </button>
        ))}
      </details>
    </nav>
  );
}
