// A document, passage by passage. Even for a long document, only passages near the visible ones are fetched.
import type { Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Passage } from "../../../api";
import { get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Icon } from "../../../ui/Icon";
import { Markdown } from "../../../ui/Markdown";
import { OFFSETS_BEFORE, useScrollToRow } from "../../../ui/scrollToRow";
import { Failure, Loading } from "../../../ui/states";
import { count } from "../../../ui/time";
import { VirtualList } from "../../../ui/VirtualList";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { Facts, RemoveDialog, useRemovable } from "./DocumentRow";

export function DocumentView({ id, onRemoved }: { id: string; onRemoved: (id: string) => void }) {
  const { user } = useApp();
  const { query, change } = usePageState();
  const loaded = useLoad((signal) => get("/api/documents/{id}", { path: { id }, query: { user }, signal }), [id, user]);
  const back = () => change({ doc: undefined, seq: undefined });
  return (
    <>
      <div className="toolbar">
        <button type="button" onClick={back}>
          <Icon name="back" /> {query.has("q") ? "Back to results" : "All documents"}
        </button>
      </div>
      {loaded.error ? <Failure error={loaded.error} retry={loaded.reload} /> : null}
      {!loaded.data && !loaded.error && <Loading />}
      {loaded.data && (
        <DocumentText
          document={loaded.data}
          onRemoved={() => {
            onRemoved(id);
            back();
          }}
        />
      )}
    </>
  );
}

function DocumentText({ document, onRemoved }: { document: Document; onRemoved: () => void }) {
  const { query, change } = usePageState();
  const removable = useRemovable(document);
  const [removing, setRemoving] = useState(false);
  const numbers = useMemo(() => Array.from({ length: document.chunks }, (_, index) => index + 1), [document.chunks]);
  const passages = usePassages(document);
  const list = useRef<Virtualizer<HTMLDivElement, Element>>(null);
  const seq = Number(query.get("seq")) || 0;
  const loadedBefore = OFFSETS_BEFORE.filter((near) => passages.of(seq - near));
  useScrollToRow(seq, loadedBefore.length, () => list.current?.scrollToIndex(seq - 1, { align: "start" }));
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
            onChange={(event) => change({ seq: event.target.value || undefined }, true)}
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
      <VirtualList
        items={numbers}
        keyOf={(number) => number}
        size={180}
        label="Passages"
        className={css.passages}
        handle={list}
      >
        {(number) => <PassageItem seq={number} isTarget={number === seq} media={document.media} passages={passages} />}
      </VirtualList>
      {removing && <RemoveDialog document={document} onRemoved={onRemoved} close={() => setRemoving(false)} />}
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

/** The passages of a document, loaded in blocks on demand. */
function usePassages(document: Document): Passages {
  const { user } = useApp();
  const [loaded, setLoaded] = useState<ReadonlyMap<number, Passage>>(new Map());
  const [error, setError] = useState<unknown>();
  const requested = useRef(new Set<number>());
  const [reloads, setReloads] = useState(0);
  // A new function after a retry, so that visible passages are requested again.
  const need = useCallback(
    (seq: number) => {
      const block = Math.floor((seq - 1) / BLOCK);
      if (requested.current.has(block)) return;
      requested.current.add(block);
      const middle = Math.min(block * BLOCK + BLOCK / 2, document.chunks);
      const query = { user, seq: middle, around: BLOCK / 2, limit: BLOCK + 1 };
      get("/api/documents/{id}/passages", { path: { id: document.id }, query }).then(
        (page) =>
          setLoaded(
            (previous) => new Map([...previous, ...page.data.map((passage) => [passage.seq, passage] as const)]),
          ),
        setError,
      );
    },
    [document.id, document.chunks, user, reloads],
  );
  return {
    of: (seq) => loaded.get(seq),
    need,
    error,
    retry: () => {
      requested.current.clear();
      setError(undefined);
      setReloads(reloads + 1);
    },
  };
}

function PassageItem({
  seq,
  isTarget,
  media,
  passages,
}: {
  seq: number;
  isTarget: boolean;
  media: string;
  passages: Passages;
}) {
  const passage = passages.of(seq);
  const { need } = passages;
  useEffect(() => {
    if (!passage) need(seq);
  }, [seq, passage, need]);
  return (
    <article
      className={isTarget ? `${css.passage} ${css.here}` : css.passage}
      aria-label={`Passage ${seq}`}
      aria-current={isTarget || undefined}
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
