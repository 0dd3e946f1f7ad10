// An agent's private memory: its entries, newest first, 100 at a time, and all actions on them.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Entry } from "../../api";
import { get, post, told } from "../../api/client";
import { useLoad } from "../../api/load";
import { useSettled } from "../../api/settled";
import { useRoute } from "../../app/route";
import { useWho } from "../../app/who";
import { Icon } from "../../ui/Icon";
import { Empty, Failure, Loading } from "../../ui/states";
import { say } from "../../ui/toast";
import { VirtualList } from "../../ui/VirtualList";
import { AddEntry } from "./AddEntry";
import { AsSeen } from "./AsSeen";
import css from "./agents.module.css";
import { Bulk } from "./Bulk";
import { downloadJson } from "./download";
import { EntryRow } from "./EntryRow";
import { type Scope, useEditing } from "./editing";
import { Filters } from "./Filters";
import { type Filter, isFiltered, NO_FILTER } from "./filters";
import { matching, useEntries, useOne } from "./found";
import { Import } from "./Import";
import { type Picked, pick, pickAll } from "./picking";
import { RemoveEntry } from "./RemoveEntry";

export function Entries({ agent }: { agent: string }) {
  const { user, may } = useWho();
  const { query } = useRoute();
  const [filter, setFilter] = useState<Filter>({ ...NO_FILTER, text: query.get("search") ?? "" });
  const text = useSettled(filter.text, 250);
  const sought = useMemo(() => ({ ...filter, text }), [filter, text]);
  const scope: Scope = filter.everybody ? { agent } : { user, agent };
  const list = useEntries(scope, sought);
  const counts = useLoad((signal) => get("/api/entries/counts", { query: scope, signal }), [agent, scope.user]);
  const one = useOne(query.get("entry"), scope);
  const [round, setRound] = useState(0);
  const [picked, setPicked] = useState<Picked<Entry>>(new Map());
  const [anchor, setAnchor] = useState<string | null>(null);
  const [adding, setAdding] = useState(false);
  const [importing, setImporting] = useState(false);
  const [removing, setRemoving] = useState<Entry>();
  const changed = () => {
    counts.reload();
    setRound((before) => before + 1);
  };
  const took = (entry: Entry) => {
    list.edit((items) => items.map((item) => (item.id === entry.id ? entry : item)));
    if (one.data?.id === entry.id) one.set(entry);
    changed();
  };
  const gone = (ids: ReadonlySet<string>) => {
    list.edit((items) => items.filter((item) => !ids.has(item.id)));
    setPicked((before) => new Map([...before].filter(([id]) => !ids.has(id))));
    if (one.data && ids.has(one.data.id)) one.set(null);
    changed();
  };
  const editing = useEditing(scope.user, took);
  const review = (entry: Entry, verdict: "accept" | "refuse") => {
    const said = { path: { id: entry.id }, query: { ...scope, agent: entry.agent } };
    const asking =
      verdict === "accept" ? post("/api/entries/{id}/accept", said) : post("/api/entries/{id}/refuse", said);
    asking.then(took, (error) => say(told(error)));
  };
  const everything = () =>
    get("/api/entries/export", { query: scope }).then(
      (data) => downloadJson(agent, "memory", data),
      (error) => say(told(error)),
    );
  const all = useCallback((items: Picked<Entry>) => {
    setPicked(items);
    setAnchor(null);
  }, []);
  const asking = useRef(new AbortController()); // called off with the question: what it finds is not what is shown then
  useEffect(() => {
    all(new Map());
    asking.current = new AbortController();
    return () => asking.current.abort();
  }, [agent, scope.user, sought, all]);
  const pickMatching = async () => {
    const { signal } = asking.current;
    const found = await matching(scope, sought, signal);
    if (!signal.aborted) all(pickAll(found));
  };

  const row = (entry: Entry, pickable = true) => (
    <EntryRow
      entry={entry}
      editing={editing}
      took={took}
      remove={setRemoving}
      review={review}
      whose={filter.everybody}
      before={
        pickable && (
          <label className={css.entryPick}>
            <input
              type="checkbox"
              aria-label={`Select: ${entry.content.slice(0, 40)}`}
              checked={picked.has(entry.id)}
              onChange={(event) => {
                const shift = (event.nativeEvent as MouseEvent).shiftKey;
                setPicked(pick(picked, list.items, entry.id, event.target.checked, shift ? anchor : null));
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
        <AsSeen scope={scope} path="/api/entries/prompt" label="As the agent sees it" round={round} />
        <span className={css.space} />
        {may("write") && (
          <button type="button" className="primary" onClick={() => setAdding(true)}>
            <Icon name="plus" /> Add
          </button>
        )}
        <button type="button" onClick={everything}>
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
      {one.data && <section aria-label="The entry that was linked to">{row(one.data, false)}</section>}
      {one.error ? <Failure error={one.error} retry={one.reload} /> : null}
      {picked.size > 0 && (
        <Bulk
          scope={scope}
          picked={picked}
          loaded={list.items.length}
          more={list.hasMore}
          pickLoaded={() => all(pickAll(list.items))}
          pickMatching={pickMatching}
          clear={() => all(new Map())}
          removed={gone}
        />
      )}
      {nothing && <Nothing filtered={isFiltered(sought)} clear={() => setFilter(NO_FILTER)} agent={agent} />}
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
      {list.loading && !list.items.length && <Loading what="Loading entries" />}
      {adding && (
        <AddEntry
          agent={agent}
          close={() => setAdding(false)}
          added={() => {
            say("Remembered.");
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
      {removing && <RemoveEntry entry={removing} scope={scope} close={() => setRemoving(undefined)} gone={gone} />}
    </>
  );
}

/** Why nothing is shown, and what to do about it. */
function Nothing({ filtered, clear, agent }: { filtered: boolean; clear: () => void; agent: string }) {
  if (filtered)
    return (
      <Empty title="Nothing matches">
        <p>No entry of {agent} matches.</p>
        <button type="button" onClick={clear}>
          Show everything
        </button>
      </Empty>
    );
  return (
    <Empty title={`${agent} remembers nothing yet`}>
      <p>
        With a model, the agent adds entries while you talk: journal entries fade after a week, core entries stay. You
        can also add one yourself, or import a file.
      </p>
    </Empty>
  );
}
