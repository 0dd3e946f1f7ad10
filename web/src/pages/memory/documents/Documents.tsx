// Documents that agents can search. Drop files anywhere on the page; open one to read its passages.
import { type DragEvent, type ReactNode, useEffect, useEffectEvent, useRef, useState } from "react";
import { get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { useLoad, usePages } from "../../../api/load";
import { useApp } from "../../../app/context";
import { useTextFromAddress } from "../../../ui/addressText";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import { bytes, plural } from "../../../ui/time";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { DocumentRow, RemoveDialog } from "./DocumentRow";
import { DocumentView } from "./DocumentView";
import { type ChosenFile, chosenFiles, dropped } from "./dropped";
import { Find } from "./Find";
import { UploadList } from "./UploadList";
import { add, useFinished } from "./uploads";

export function Documents() {
  const { user, may } = useApp();
  const { query, change } = usePageState();
  const [everybody, setEverybody] = useState(false);
  const pages = usePages<Document>(
    (after, signal) => get("/api/documents", { query: { user, limit: 100, after }, signal }),
    [user],
  );
  const counts = useLoad((signal) => get("/api/documents/counts", { query: { user }, signal }), [user]);
  const finishedCount = useFinished();
  const lastCount = useRef(finishedCount); // these are in the first load already
  const reload = useEffectEvent(() => {
    pages.reload();
    counts.reload();
  });
  useEffect(() => {
    if (finishedCount === lastCount.current) return;
    lastCount.current = finishedCount;
    reload();
  }, [finishedCount]);
  const onRemoved = (id: string) => {
    pages.edit((items) => items.filter((document) => document.id !== id));
    counts.reload();
  };
  const addFiles = (files: ChosenFile[]) => {
    add(files, everybody ? undefined : user);
    change({ doc: undefined, seq: undefined, q: undefined });
  };
  const open = query.get("doc");
  const searching = query.get("q");
  return (
    <DropZone allowed={may("write")} addFiles={addFiles}>
      {!open && <Bar counts={counts.data} addFiles={addFiles} everybody={everybody} setEverybody={setEverybody} />}
      {!open && !searching && <UploadList />}
      {open ? (
        <DocumentView key={open} id={open} onRemoved={onRemoved} />
      ) : searching ? (
        <Find query={searching} />
      ) : (
        <List pages={pages} onRemoved={onRemoved} />
      )}
    </DropZone>
  );
}

/** The page as a drop zone for files. */
type Zone = { allowed: boolean; addFiles: (files: ChosenFile[]) => void; children: ReactNode };

function DropZone({ allowed, addFiles, children }: Zone) {
  const latest = useRef(addFiles);
  latest.current = addFiles;
  const [over, setOver] = useState(false);
  const depth = useRef(0);
  useEffect(() => {
    if (!allowed) return;
    const has = (event: Event) => !!(event as unknown as DragEvent).dataTransfer?.types.includes("Files");
    const onEnter = (event: Event) => has(event) && setOver(++depth.current > 0);
    const onLeave = (event: Event) => has(event) && setOver(--depth.current > 0);
    const onOver = (event: Event) => has(event) && event.preventDefault();
    const onDrop = (event: Event) => {
      const data = (event as unknown as DragEvent).dataTransfer;
      if (!has(event) || !data) return;
      event.preventDefault();
      depth.current = 0;
      setOver(false);
      dropped(data).then((files) => latest.current(files));
    };
    const handlers = { dragenter: onEnter, dragleave: onLeave, dragover: onOver, drop: onDrop };
    for (const [name, listener] of Object.entries(handlers)) window.addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(handlers)) window.removeEventListener(name, listener);
    };
  }, [allowed]);
  return (
    <>
      {over && (
        <div className={css.drop} aria-hidden="true">
          <p>Drop the files to add them</p>
        </div>
      )}
      {children}
    </>
  );
}

type Props = {
  counts: Record<string, number> | undefined;
  addFiles: (files: ChosenFile[]) => void;
  everybody: boolean;
  setEverybody: (on: boolean) => void;
};

function Bar({ counts, addFiles, everybody, setEverybody }: Props) {
  const { may, choosable } = useApp();
  const { query, change } = usePageState();
  const [text, setText] = useTextFromAddress(query.get("q") ?? "");
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <div className="toolbar">
        <form
          className={css.finding}
          onSubmit={(event) => {
            event.preventDefault();
            change({ q: text.trim() || undefined });
          }}
        >
          <input
            type="search"
            aria-label="Search in the documents"
            placeholder="Search in the documents…"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              if (!event.target.value) change({ q: undefined });
            }}
          />
          <button type="submit">
            <Icon name="search" /> Search
          </button>
        </form>
        {may("write") && (
          <>
            {choosable && (
              <label className="check">
                <input type="checkbox" checked={everybody} onChange={(event) => setEverybody(event.target.checked)} />{" "}
                For all users
              </label>
            )}
            <button type="button" className="primary" onClick={() => input.current?.click()}>
              <Icon name="plus" /> Add files
            </button>
            <input
              ref={input}
              type="file"
              multiple
              hidden
              aria-label="Files to add"
              onChange={(event) => {
                if (event.target.files) addFiles(chosenFiles(event.target.files));
                event.target.value = "";
              }}
            />
          </>
        )}
      </div>
      {counts && (counts.documents ?? 0) > 0 && (
        <p className="quiet">
          {plural(counts.documents ?? 0, "document")}, {plural(counts.chunks ?? 0, "passage")},{" "}
          {bytes(counts.bytes ?? 0)}.
          {may("write") && " Drop files anywhere on this page. A file replaces the document with the same path."}
        </p>
      )}
    </>
  );
}

function List({ pages, onRemoved }: { pages: ReturnType<typeof usePages<Document>>; onRemoved: (id: string) => void }) {
  const { may } = useApp();
  const [removed, setRemoved] = useState<Document>();
  const none = (
    <Empty title="No documents yet">
      <p>
        Agents search the documents that you add here, such as handbooks, minutes or web pages.{" "}
        {may("write") &&
          "Drop files anywhere on this page, or use the button. Text, Markdown, HTML and PDF files are supported."}
      </p>
    </Empty>
  );
  return (
    <>
      <PagedList
        pages={pages}
        keyOf={(document) => document.id}
        size={66}
        label="Documents"
        className={css.rows}
        empty={none}
      >
        {(document) => <DocumentRow document={document} remove={() => setRemoved(document)} />}
      </PagedList>
      {removed && (
        <RemoveDialog document={removed} onRemoved={() => onRemoved(removed.id)} close={() => setRemoved(undefined)} />
      )}
    </>
  );
}
