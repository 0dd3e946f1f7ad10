// References: large outputs that prompts show as one line. Find, open, describe and remove them.
import { lazy, Suspense, useEffect, useState } from "react";
import { get } from "../../../api/client";
import type { Ref } from "../../../api/index";
import { type Page, usePages } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { Filters } from "./Filters";
import { RefAdd } from "./RefAdd";
import { RefForm } from "./RefForm";
import { RefRow } from "./RefRow";
import { RemoveDialog } from "./RemoveDialog";

const RefViewer = lazy(() => import("../../../refs/RefViewer"));

const FILTER_PARAMS = ["q", "type", "active", "session"];

export function Refs() {
  const { user, may } = useApp();
  const { query, change } = usePageState();
  const [adding, setAdding] = useState(false);
  const [edited, setEdited] = useState<Ref>();
  const [removed, setRemoved] = useState<Ref[]>();
  const [selectedKeys, setSelectedKeys] = useState<ReadonlySet<string>>(new Set());
  const pages = useRefs(user, query);
  const selectedRefs = pages.items.filter((ref) => selectedKeys.has(ref.key));
  const filters = FILTER_PARAMS.map((name) => query.get(name));
  useEffect(() => setSelectedKeys(new Set()), [user, ...filters]); // do not remove references that are no longer visible
  const replaceRef = (ref: Ref) => pages.edit((items) => items.map((other) => (other.key === ref.key ? ref : other)));
  const removeRef = (key: string) => {
    pages.edit((items) => items.filter((other) => other.key !== key));
    setSelectedKeys((previous) => new Set([...previous].filter((other) => other !== key)));
  };
  const pick = (key: string, on: boolean) =>
    setSelectedKeys((previous) => new Set(on ? [...previous, key] : [...previous].filter((other) => other !== key)));
  const open = query.get("ref");
  const filtered = filters.some((value) => value !== null);
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
        <SelectionBar
          items={pages.items}
          count={selectedRefs.length}
          pick={setSelectedKeys}
          remove={() => setRemoved(selectedRefs)}
        />
      )}
      <PagedList
        pages={pages}
        keyOf={(ref) => ref.key}
        size={86}
        label="References"
        className={css.rows}
        empty={<NoResults filtered={filtered} />}
      >
        {(ref) => (
          <RefRow
            of={ref}
            selected={selectedKeys.has(ref.key)}
            select={may("delete") ? (on) => pick(ref.key, on) : undefined}
            edit={may("write") ? () => setEdited(ref) : undefined}
            remove={may("delete") ? () => setRemoved([ref]) : undefined}
          />
        )}
      </PagedList>
      {open && (
        <Suspense fallback={null}>
          <RefViewer refKey={open} close={() => change({ ref: undefined })} changed={replaceRef} />
        </Suspense>
      )}
      {adding && <RefAdd added={pages.reload} close={() => setAdding(false)} />}
      {edited && <RefForm of={edited} saved={replaceRef} close={() => setEdited(undefined)} />}
      {removed && <RemoveDialog refs={removed} onRemoved={removeRef} close={() => setRemoved(undefined)} />}
    </>
  );
}

/** The references to show: search results, or all that match the filters, page by page. */
function useRefs(user: string, query: URLSearchParams) {
  const [q, type, active, session] = FILTER_PARAMS.map((name) => query.get(name) ?? undefined);
  return usePages<Ref>(
    async (after, signal): Promise<Page<Ref>> => {
      if (!q) {
        const params = { type, active: active === undefined ? undefined : active === "true", session };
        return get("/api/refs", { query: { user, ...params, limit: 100, after }, signal });
      }
      const hits = await get("/api/refs/search", { query: { user, query: q, session, limit: 50 }, signal });
      const fits = (ref: Ref) => (!type || ref.type === type) && (!active || String(ref.is_active) === active);
      return { data: hits.data.filter(fits), next: null };
    },
    [user, q, type, active, session],
  );
}

type SelectionProps = {
  items: Ref[];
  count: number;
  pick: (keys: ReadonlySet<string>) => void;
  remove: () => void;
};

function SelectionBar({ items, count, pick, remove }: SelectionProps) {
  return (
    <div className="toolbar">
      <label className="check">
        <input
          type="checkbox"
          checked={count === items.length}
          onChange={(event) => pick(new Set(event.target.checked ? items.map((ref) => ref.key) : []))}
        />{" "}
        Select all shown
      </label>
      {count > 0 && (
        <button type="button" className="danger" onClick={remove}>
          Remove {count}
        </button>
      )}
    </div>
  );
}

function NoResults({ filtered }: { filtered: boolean }) {
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
        If the output of a tool or a command is too large for a prompt, the whole output is stored here, and the
        conversation contains a one-line placeholder for it.
      </p>
    </Empty>
  );
}
