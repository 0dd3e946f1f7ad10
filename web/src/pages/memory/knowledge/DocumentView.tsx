// A document, passage by passage. Only passages near the visible ones are fetched, however long it is.
import type { Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { useLoad } from "../../../api/load";
import type { components } from "../../../api/schema";
import { useWho } from "../../../app/who";
import { BEFORE, useArrive } from "../../../ui/arrive";
import { Icon } from "../../../ui/Icon";
import { Markdown } from "../../../ui/Markdown";
import { Failure, Loading } from "../../../ui/states";
import { count } from "../../../ui/time";
import { VirtualList } from "../../../ui/VirtualList";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { Facts, Removing, useRemovable } from "./DocumentRow";

type Passage = components["schemas"]["Passage"];

export function DocumentView({ id, gone }: { id: string; gone: (id: string) => void }) {
  const { user } = useWho();
  const { query, ask } = useAsked();
  const found = useLoad((signal) => get("/api/knowledge/{id}", { path: { id }, query: { user }, signal }), [id, user]);
  const back = () => ask({ doc: undefined, seq: undefined });
  return (
    <>
      <div className="toolbar">
        <button type="button" onClick={back}>
          <Icon name="back" /> {query.has("q") ? "Back to results" : "All documents"}
        </button>
      </div>
      {found.error ? <Failure error={found.error} retry={found.reload} /> : null}
      {!found.data && !found.error && <Loading />}
      {found.data && (
        <Shown
          document={found.data}
          gone={() => {
            gone(id);
            back();
          }}
        />
      )}
    </>
  );
}

function Shown({ document, gone }: { document: Document; gone: () => void }) {
  const { query, ask } = useAsked();
  const removable = useRemovable(document);
  const [removing, setRemoving] = useState(false);
  const all = useMemo(() => Array.from({ length: document.chunks }, (_, place) => place + 1), [document.chunks]);
  const passages = usePassages(document);
  const list = useRef<Virtualizer<HTMLDivElement, Element>>(null);
  const seq = Number(query.get("seq")) || 0;
  const known = BEFORE.filter((near) => passages.of(seq - near));
  useArrive(seq, known.length, () => list.current?.scrollToIndex(seq - 1, { align: "start" }));
  return (
    <>
      <div className="toolbar">
        <div className={css.grow}>
          <h2>{document.title}</h2>
          <Facts document={document} />
        </div>
        <label className={css.picker}>
          <span>Passage</span>
          <input
            type="number"
            min={1}
            max={document.chunks}
            value={seq || ""}
            onChange={(event) => ask({ seq: event.target.value || undefined }, true)}
          />
          <span>of {count(document.chunks)}</span>
        </label>
        {removable && (
          <button type="button" onClick={() => setRemoving(true)}>
            <Icon name="remove" /> Remove
          </button>
        )}
      </div>
      {passages.error ? <Failure error={passages.error} retry={passages.retry} /> : null}
      <VirtualList items={all} keyOf={(one) => one} size={180} label="Passages" className={css.passages} handle={list}>
        {(one) => <One seq={one} here={one === seq} media={document.media} passages={passages} />}
      </VirtualList>
      {removing && <Removing document={document} gone={gone} close={() => setRemoving(false)} />}
    </>
  );
}

type Passages = {
  of: (seq: number) => Passage | undefined;
  need: (seq: number) => void;
  error: unknown;
  retry: () => void;
};
const BLOCK = 50;

/** The passages of a document, fetched in blocks when one of them is asked for. */
function usePassages(document: Document): Passages {
  const { user } = useWho();
  const [known, setKnown] = useState<ReadonlyMap<number, Passage>>(new Map());
  const [error, setError] = useState<unknown>();
  const asked = useRef(new Set<number>());
  const [round, setRound] = useState(0);
  // Another function after a retry, so that the passages in sight ask again.
  const need = useCallback(
    (seq: number) => {
      const block = Math.floor((seq - 1) / BLOCK);
      if (asked.current.has(block)) return;
      asked.current.add(block);
      const middle = Math.min(block * BLOCK + BLOCK / 2, document.chunks);
      const query = { user, seq: middle, around: BLOCK / 2, limit: BLOCK + 1 };
      get("/api/knowledge/{id}/passages", { path: { id: document.id }, query }).then(
        (page) => setKnown((before) => new Map([...before, ...page.data.map((one) => [one.seq, one] as const)])),
        setError,
      );
    },
    [document.id, document.chunks, user, round],
  );
  return {
    of: (seq) => known.get(seq),
    need,
    error,
    retry: () => {
      asked.current.clear();
      setError(undefined);
      setRound(round + 1);
    },
  };
}

function One({ seq, here, media, passages }: { seq: number; here: boolean; media: string; passages: Passages }) {
  const passage = passages.of(seq);
  const { need } = passages;
  useEffect(() => {
    if (!passage) need(seq);
  }, [seq, passage, need]);
  return (
    <article
      className={here ? `${css.passage} ${css.here}` : css.passage}
      aria-label={`Passage ${seq}`}
      aria-current={here || undefined}
    >
      <p className="quiet">
        {count(seq)}
        {passage?.page && <> · page {passage.page}</>}
        {passage?.title && <> · {passage.title}</>}
      </p>
      {!passage ? (
        <p className="quiet">…</p>
      ) : media === "markdown" || media === "html" ? (
        <Markdown text={passage.text} />
      ) : (
        <p className={css.text}>{passage.text}</p>
      )}
    </article>
  );
}
