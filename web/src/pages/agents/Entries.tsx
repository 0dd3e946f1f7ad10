// An agent's private memory: its entries, newest first, 100 at a time, and all actions on them.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Entry } from "../../api";
import { errorMessage, get, post } from "../../api/client";
import { useDebounced } from "../../api/debounced";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { useRoute } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Empty, Failure, Loading } from "../../ui/states";
import { notify } from "../../ui/toast";
import { VirtualList } from "../../ui/VirtualList";
import { AddEntry } from "./AddEntry";
import { AgentView } from "./AgentView";
import css from "./agents.module.css";
import { Bulk } from "./Bulk";
import { downloadJson } from "./download";
import { EntryRow } from "./EntryRow";
import { type Scope, useEditing } from "./editing";
import { matching, useEntries, useEntry } from "./entryQueries";
import { Filters } from "./Filters";
import { type Filter, isFiltered, NO_FILTER } from "./filters";
import { Import } from "./Import";
import { pick, pickAll, type Selection } from "./picking";
import { RemoveEntry } from "./RemoveEntry";

export function Entries({ agent }: { agent: string }) {
  const { user, may } = useApp();
  const { query } = useRoute();
  const [filter, setFilter] = useState<Filter>({ ...NO_FILTER, text: query.get("search") ?? "" });
  const text = useDebounced(filter.text, 250);
  const searchFilter = useMemo(() => ({ ...filter, text }), [filter, text]);
  const scope: Scope = filter.everybody ? { agent } : { user, agent };
  const list = useEntries(scope, searchFilter);
  const counts = useLoad((signal) => get("/api/entries/counts", { query: scope, signal }), [agent, scope.user]);
  const linkedEntry = useEntry(query.get("entry"), scope);
  const [reloads, setReloads] = useState(0);
  const [selection, setSelection] = useState<Selection<Entry>>(new Map());
  const [anchor, setAnchor] = useState<string | null>(null);
  const [adding, setAdding] = useState(false);
  const [importing, setImporting] = useState(false);
  const [removing, setRemoving] = useState<Entry>();
  const changed = () => {
    counts.reload();
    setReloads((previous) => previous + 1);
  };
  const onSaved = (entry: Entry) => {
    list.edit((items) => items.map((item) => (item.id === entry.id ? entry : item)));
    if (linkedEntry.data?.id === entry.id) linkedEntry.set(entry);
    changed();
  };
  const onRemoved = (ids: ReadonlySet<string>) => {
    list.edit((items) => items.filter((item) => !ids.has(item.id)));
    setSelection((previous) => new Map([...previous].filter(([id]) => !ids.has(id))));
    if (linkedEntry.data && ids.has(linkedEntry.data.id)) linkedEntry.set(null);
    changed();
  };
  const editing = useEditing(scope.user, onSaved);
  const review = (entry: Entry, verdict: "accept" | "refuse") => {
    const options = { path: { id: entry.id }, query: { ...scope, agent: entry.agent } };
    const asking =
      verdict === "accept" ? post("/api/entries/{id}/accept", options) : post("/api/entries/{id}/refuse", options);
    asking.then(onSaved, (error) => notify(errorMessage(error)));
  };
  const exportAll = () =>
    get("/api/entries/export", { query: scope }).then(
      (data) => downloadJson(agent, "memory", data),
      (error) => notify(errorMessage(error)),
    );
  const selectAll = useCallback((items: Selection<Entry>) => {
    setSelection(items);
    setAnchor(null);
  }, []);
  const asking = useRef(new AbortController()); // aborted when the filter changes
  useEffect(() => {
    selectAll(new Map());
    asking.current = new AbortController();
    return () => asking.current.abort();
  }, [agent, scope.user, searchFilter, selectAll]);
  const pickMatching = async () => {
    const { signal } = asking.current;
    const entries = await matching(scope, searchFilter, signal);
    if (!signal.aborted) selectAll(pickAll(entries));
  };

  const row = (entry: Entry, pickable = true) => (
    <EntryRow
      entry={entry}
      editing={editing}
      onSaved={onSaved}
      remove={setRemoving}
      review={review}
      showOwner={filter.everybody}
      prefix={
        pickable && (
          <label className={css.entryPick}>
            <input
              type="checkbox"
              aria-label={`Select: ${entry.content.slice(0, 40)}`}
              checked={selection.has(entry.id)}
              onChange={(event) => {
                const shift = (event.nativeEvent as MouseEvent).shiftKey;
                setSelection(pick(selection, list.items, entry.id, event.target.checked, shift ? anchor : null));
                setAnchor(entry.id);
              }}
            />
          </label>
        )
      }
    />
  );
  const nothing = !list.loading && !list.error && list.items.length === 0;
  return (
    <>
      <div className="toolbar">
        <AgentView scope={scope} path="/api/entries/prompt" label="As the agent sees it" reloads={reloads} />
        <span className={css.space} />
        {may("write") && (
          <button type="button" className="primary" onClick={() => setAdding(true)}>
            <Icon name="plus" /> Add
          </button>
        )}
        <button type="button" onClick={exportAll}>
          Export
        </button>
        {may("write") && (
          <button type="button" onClick={() => setImporting(true)}>
            Import
          </button>
        )}
      </div>
      <Filters filter={filter} change={setFilter} counts={counts.data} />
      {counts.error ? <Failure error={counts.error} retry={counts.reload} /> : null}
      {linkedEntry.data && <section aria-label="Linked entry">{row(linkedEntry.data, false)}</section>}
      {linkedEntry.error ? <Failure error={linkedEntry.error} retry={linkedEntry.reload} /> : null}
      {selection.size > 0 && (
        <Bulk
          scope={scope}
          selection={selection}
          loaded={list.items.length}
          more={list.hasMore}
          pickLoaded={() => selectAll(pickAll(list.items))}
          pickMatching={pickMatching}
          clear={() => selectAll(new Map())}
          removed={onRemoved}
        />
      )}
      {nothing && <NoResults filtered={isFiltered(searchFilter)} clear={() => setFilter(NO_FILTER)} agent={agent} />}
      {list.items.length > 0 && (
        <VirtualList
          items={list.items}
          keyOf={(entry) => entry.id}
          size={92}
          label={`What ${agent} remembers`}
          className={css.entries}
          nearEnd={list.more}
          stale={list.stale}
        >
          {(entry) => row(entry)}
        </VirtualList>
      )}
      {list.error ? <Failure error={list.error} retry={list.retry} /> : null}
      {list.loading && !list.items.length && <Loading label="Loading entries" />}
      {adding && (
        <AddEntry
          agent={agent}
          close={() => setAdding(false)}
          added={() => {
            notify("Entry added.");
            list.reload();
            changed();
          }}
        />
      )}
      {importing && (
        <Import
          scope={scope}
          close={() => setImporting(false)}
          changed={() => {
            list.reload();
            changed();
          }}
        />
      )}
      {removing && (
        <RemoveEntry entry={removing} scope={scope} close={() => setRemoving(undefined)} onRemoved={onRemoved} />
      )}
    </>
  );
}

/** The reason for an empty list, and what to do about it. */
function NoResults({ filtered, clear, agent }: { filtered: boolean; clear: () => void; agent: string }) {
  if (filtered)
    return (
      <Empty title="Nothing matches">
        <p>No entry of {agent} matches the search and filters.</p>
        <button type="button" onClick={clear}>
          Show all entries
        </button>
      </Empty>
    );
  return (
    <Empty title={`${agent} remembers nothing yet`}>
      <p>
        With a model, the agent adds entries during a chat. Journal entries are in its prompt for a week, core entries
        always. You can also add an entry yourself, or import a file.
      </p>
    </Empty>
  );
}
