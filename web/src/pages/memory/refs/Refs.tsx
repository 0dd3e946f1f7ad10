// References: large outputs that prompts show as one line. Find, open, describe and remove them.
import { lazy, Suspense, useEffect, useState } from "react";
import { get } from "../../../api/client";
import type { Ref } from "../../../api/index";
import { type Page, usePages } from "../../../api/load";
import { useWho } from "../../../app/who";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { Filters } from "./Filters";
import { RefAdd } from "./RefAdd";
import { RefForm } from "./RefForm";
import { RefRow } from "./RefRow";
import { Removing } from "./Removing";

const RefViewer = lazy(() => import("../../../refs/RefViewer"));

const ASKED = ["q", "type", "active", "session"];

export function Refs() {
  const { user, may } = useWho();
  const { query, ask } = useAsked();
  const [adding, setAdding] = useState(false);
  const [edited, setEdited] = useState<Ref>();
  const [removed, setRemoved] = useState<Ref[]>();
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const pages = useRefs(user, query);
  const chosen = pages.items.filter((ref) => picked.has(ref.key));
  const asked = ASKED.map((name) => query.get(name));
  useEffect(() => setPicked(new Set()), [user, ...asked]); // what is not shown any more is not removed either
  const put = (ref: Ref) => pages.edit((items) => items.map((one) => (one.key === ref.key ? ref : one)));
  const drop = (key: string) => {
    pages.edit((items) => items.filter((one) => one.key !== key));
    setPicked((before) => new Set([...before].filter((one) => one !== key)));
  };
  const pick = (key: string, on: boolean) =>
    setPicked((before) => new Set(on ? [...before, key] : [...before].filter((one) => one !== key)));
  const open = query.get("ref");
  const filtered = asked.some((value) => value !== null);
  return (
    <>
      <div className="toolbar">
        <Filters types={pages.items.map((ref) => ref.type)} />
        {may("write") && (
          <button type="button" className="primary" onClick={() => setAdding(true)}>
            <Icon name="plus" /> Add
          </button>
        )}
      </div>
      {may("delete") && pages.items.length > 0 && (
        <Picked items={pages.items} chosen={chosen.length} pick={setPicked} remove={() => setRemoved(chosen)} />
      )}
      <PagedList
        pages={pages}
        keyOf={(ref) => ref.key}
        size={86}
        label="References"
        className={css.rows}
        empty={<Nothing filtered={filtered} />}
      >
        {(ref) => (
          <RefRow
            of={ref}
            picked={picked.has(ref.key)}
            pick={may("delete") ? (on) => pick(ref.key, on) : undefined}
            edit={may("write") ? () => setEdited(ref) : undefined}
            remove={may("delete") ? () => setRemoved([ref]) : undefined}
          />
        )}
      </PagedList>
      {open && (
        <Suspense fallback={null}>
          <RefViewer refKey={open} close={() => ask({ ref: undefined })} changed={put} />
        </Suspense>
      )}
      {adding && <RefAdd added={pages.reload} close={() => setAdding(false)} />}
      {edited && <RefForm of={edited} saved={put} close={() => setEdited(undefined)} />}
      {removed && <Removing refs={removed} gone={drop} close={() => setRemoved(undefined)} />}
    </>
  );
}

/** The references that are asked for: those that answer a search, or all that fit, page by page. */
function useRefs(user: string, query: URLSearchParams) {
  const [q, type, active, session] = ASKED.map((name) => query.get(name) ?? undefined);
  return usePages<Ref>(
    async (after, signal): Promise<Page<Ref>> => {
      if (!q) {
        const wanted = { type, active: active === undefined ? undefined : active === "true", session };
        return get("/api/refs", { query: { user, ...wanted, limit: 100, after }, signal });
      }
      const found = await get("/api/refs/search", { query: { user, query: q, session, limit: 50 }, signal });
      const fits = (ref: Ref) => (!type || ref.type === type) && (!active || String(ref.is_active) === active);
      return { data: found.filter(fits), next: null };
    },
    [user, q, type, active, session],
  );
}

type Chosen = {
  items: Ref[];
  chosen: number;
  pick: (keys: ReadonlySet<string>) => void;
  remove: () => void;
};

function Picked({ items, chosen, pick, remove }: Chosen) {
  return (
    <div className="toolbar">
      <label className="check">
        <input
          type="checkbox"
          checked={chosen === items.length}
          onChange={(event) => pick(new Set(event.target.checked ? items.map((ref) => ref.key) : []))}
        />{" "}
        Select all that are shown
      </label>
      {chosen > 0 && (
        <button type="button" className="danger" onClick={remove}>
          Remove {chosen}
        </button>
      )}
    </div>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) {
    return (
      <Empty title="No such reference">
        <p>Try other words, or fewer filters.</p>
      </Empty>
    );
  }
  return (
    <Empty title="No references yet">
      <p>
        When a tool or a command answers with more than fits into a prompt, the whole of it is kept here, and the
        conversation has one line that stands for it.
      </p>
    </Empty>
  );
}
