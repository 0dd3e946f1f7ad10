// Knowledge: documents that agents can search. Drop files anywhere on the page; open one to read its passages.
import { type DragEvent, type ReactNode, useEffect, useEffectEvent, useRef, useState } from "react";
import { get } from "../../../api/client";
import type { Document } from "../../../api/index";
import { useLoad, usePages } from "../../../api/load";
import { useWho } from "../../../app/who";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import { bytes } from "../../../ui/time";
import { useHeld } from "../../../ui/typed";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { DocumentRow, plural, Removing } from "./DocumentRow";
import { DocumentView } from "./DocumentView";
import { chosen, type Dropped, dropped } from "./dropped";
import { Find } from "./Find";
import { UploadList } from "./UploadList";
import { add, useFinished } from "./uploads";

export function Knowledge() {
  const { user, may } = useWho();
  const { query, ask } = useAsked();
  const [everybody, setEverybody] = useState(false);
  const pages = usePages<Document>(
    (after, signal) => get("/api/knowledge", { query: { user, limit: 100, after }, signal }),
    [user],
  );
  const counts = useLoad((signal) => get("/api/knowledge/counts", { query: { user }, signal }), [user]);
  const finished = useFinished();
  const known = useRef(finished); // those are in the first look already
  const reload = useEffectEvent(() => {
    pages.reload();
    counts.reload();
  });
  useEffect(() => {
    if (finished === known.current) return;
    known.current = finished;
    reload();
  }, [finished]);
  const gone = (id: string) => {
    pages.edit((items) => items.filter((one) => one.id !== id));
    counts.reload();
  };
  const take = (files: Dropped[]) => {
    add(files, everybody ? undefined : user);
    ask({ doc: undefined, seq: undefined, q: undefined });
  };
  const open = query.get("doc");
  const searching = query.get("q");
  return (
    <Dropping allowed={may("write")} take={take}>
      {!open && <Bar counts={counts.data} take={take} everybody={everybody} setEverybody={setEverybody} />}
      {!open && !searching && <UploadList />}
      {open ? (
        <DocumentView key={open} id={open} gone={gone} />
      ) : searching ? (
        <Find query={searching} />
      ) : (
        <List pages={pages} gone={gone} />
      )}
    </Dropping>
  );
}

/** The whole page takes what is dropped onto it. */
type Zone = { allowed: boolean; take: (files: Dropped[]) => void; children: ReactNode };

function Dropping({ allowed, take, children }: Zone) {
  const latest = useRef(take);
  latest.current = take;
  const [over, setOver] = useState(false);
  const depth = useRef(0);
  useEffect(() => {
    if (!allowed) return;
    const has = (event: Event) => !!(event as unknown as DragEvent).dataTransfer?.types.includes("Files");
    const enter = (event: Event) => has(event) && setOver(++depth.current > 0);
    const leave = (event: Event) => has(event) && setOver(--depth.current > 0);
    const hold = (event: Event) => has(event) && event.preventDefault();
    const drop = (event: Event) => {
      const data = (event as unknown as DragEvent).dataTransfer;
      if (!has(event) || !data) return;
      event.preventDefault();
      depth.current = 0;
      setOver(false);
      dropped(data).then((files) => latest.current(files));
    };
    const heard = { dragenter: enter, dragleave: leave, dragover: hold, drop };
    for (const [name, listener] of Object.entries(heard)) window.addEventListener(name, listener);
    return () => {
      for (const [name, listener] of Object.entries(heard)) window.removeEventListener(name, listener);
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

type Shown = {
  counts: Record<string, number> | undefined;
  take: (files: Dropped[]) => void;
  everybody: boolean;
  setEverybody: (on: boolean) => void;
};

function Bar({ counts, take, everybody, setEverybody }: Shown) {
  const { may, choosable } = useWho();
  const { query, ask } = useAsked();
  const [text, setText] = useHeld(query.get("q") ?? "");
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <div className="toolbar">
        <form
          className={css.finding}
          onSubmit={(event) => {
            event.preventDefault();
            ask({ q: text.trim() || undefined });
          }}
        >
          <input
            type="search"
            aria-label="Search in the documents"
            placeholder="Search in the documents…"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              if (!event.target.value) ask({ q: undefined });
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
                if (event.target.files) take(chosen(event.target.files));
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
          {may("write") &&
            " Files can be dropped anywhere on this page; one with the same path takes the place of the other."}
        </p>
      )}
    </>
  );
}

function List({ pages, gone }: { pages: ReturnType<typeof usePages<Document>>; gone: (id: string) => void }) {
  const { may } = useWho();
  const [removed, setRemoved] = useState<Document>();
  const none = (
    <Empty title="No documents yet">
      <p>
        Handbooks, minutes, web pages: agents look things up in what is here.{" "}
        {may("write") &&
          "Drop files anywhere on this page, or add them with the button. Text, Markdown, HTML and PDF can be read."}
      </p>
    </Empty>
  );
  return (
    <>
      <PagedList pages={pages} keyOf={(one) => one.id} size={66} label="Documents" className={css.rows} empty={none}>
        {(one) => <DocumentRow document={one} remove={() => setRemoved(one)} />}
      </PagedList>
      {removed && <Removing document={removed} gone={() => gone(removed.id)} close={() => setRemoved(undefined)} />}
    </>
  );
}
