// What is known about the user and the people and things they talk about: current facts by
// subject, what changed when, and the review queue.
import { useState } from "react";
import { get, Problem } from "../../../api/client";
import type { Entity, Fact } from "../../../api/index";
import { type Loaded, type Pages, useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { useDebouncedText } from "../../../ui/addressText";
import { Icon } from "../../../ui/Icon";
import { Segments } from "../../../ui/Segments";
import { Empty, Failure, Loading } from "../../../ui/states";
import { count } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import { type PageState, usePageState } from "../pageState";
import { type FactActions, useFactActions } from "./actions";
import { AddFact, CorrectFact } from "./FactForm";
import { FactRow } from "./FactRow";
import { ForgetDialog } from "./ForgetDialog";
import { ABOUT_USER, bySubject, isPast, subjectName, TOPICS } from "./fact";
import { type Filter, filterOf, isFiltered, useEntities, useFacts, useReviewQueue, useTimeline } from "./factQueries";
import css from "./facts.module.css";
import { Aliases, MergeDialog, NameProposals } from "./Names";
import { ReviewQueue } from "./ReviewQueue";
import { Timeline } from "./Timeline";

export function Facts() {
  const { user, may } = useApp();
  const { query, change } = usePageState();
  const filter = filterOf(query);
  const view = viewOf(query);
  const entities = useEntities(user);
  const known = entities.data ?? NO_ENTITIES;
  const list = useFacts(user, filter, known);
  const queue = useReviewQueue(user);
  const timeline = useTimeline(user, filter.about, view === "timeline");
  const linked = useLinkedFact(query.get("fact"), user);
  const [adding, setAdding] = useState(false);
  const [merging, setMerging] = useState(false);
  const [correcting, setCorrecting] = useState<Fact>();
  const [forgetting, setForgetting] = useState<Fact>();
  const reloadAll = () => {
    list.reload();
    queue.reload();
    entities.reload();
    timeline.reload();
  };
  const onChanged = (fact: Fact, related: boolean) => {
    const isShown = fact.status !== "pending" && (filter.past || filter.day !== "" || !isPast(fact));
    const isListed = list.items.some((item) => item.id === fact.id);
    list.edit((items) =>
      isShown ? items.map((item) => (item.id === fact.id ? fact : item)) : items.filter((item) => item.id !== fact.id),
    );
    if (linked.data?.id === fact.id) linked.set(fact);
    if (related || (isShown && !isListed)) list.reload();
    queue.edit((items) => items.filter((item) => item.id !== fact.id && item.conflicts_with !== fact.id));
    queue.reload();
    entities.reload();
    timeline.reload();
  };
  const actions = useFactActions(onChanged);
  const onCorrected = (newer: Fact) => {
    notify("Corrected.", () => actions.undo(newer.id));
    list.edit((items) => items.map((item) => (item.id === newer.replaces ? newer : item)));
    if (linked.data?.id === newer.replaces) change({ fact: newer.id }, true);
    reloadAll();
  };
  const onForgotten = (id: string) => {
    list.edit((items) => items.filter((item) => item.id !== id));
    if (linked.data?.id === id) change({ fact: undefined }, true);
    reloadAll();
  };
  const onNamesChanged = () => {
    entities.reload();
    list.reload();
    timeline.reload();
  };
  const others = known.filter((entity) => entity.name !== ABOUT_USER);
  const subjects = others.map((entity) => entity.name);
  const waiting = queue.items.length + known.flatMap((entity) => entity.proposed).length;
  const unclear = new Set(
    queue.items.flatMap(({ id, conflicts_with }) => (conflicts_with ? [id, conflicts_with] : [])),
  );
  const rowProps = { actions, correct: setCorrecting, forget: setForgetting };
  return (
    <>
      <div className="toolbar">
        <Segments
          label="Which facts"
          choices={[
            ["all", "Facts"],
            ["timeline", "Timeline"],
            ["review", waiting > 0 ? `Review (${count(waiting)}${queue.hasMore ? "+" : ""})` : "Review"],
          ]}
          chosen={view}
          choose={(next) => change({ view: next === "all" ? undefined : next })}
        />
        {view === "all" && <SearchBox text={filter.text} search={(q) => change({ q: q || undefined }, true)} />}
        {may("write") && (
          <>
            {others.length > 1 && (
              <button type="button" onClick={() => setMerging(true)}>
                Merge names
              </button>
            )}
            <button type="button" className="primary" onClick={() => setAdding(true)}>
              <Icon name="plus" /> Add
            </button>
          </>
        )}
      </div>
      {view === "timeline" && (
        <>
          <search className="toolbar">
            <AboutFilter about={filter.about} subjects={subjects} change={change} />
          </search>
          <Timeline changes={timeline} filtered={filter.about !== ""} clear={() => change({ about: undefined })} />
        </>
      )}
      {view === "review" && (
        <>
          <NameProposals entities={known} changed={onNamesChanged} />
          <ReviewQueue queue={queue} actions={actions} correct={setCorrecting} />
        </>
      )}
      {view === "all" && (
        <>
          <Filters filter={filter} subjects={subjects} change={change} />
          <LinkedFact linked={linked} {...rowProps} close={() => change({ fact: undefined })} />
          {entities.error ? <Failure error={entities.error} retry={entities.reload} /> : null}
          <FactList
            list={list}
            filter={filter}
            entities={known}
            unclear={unclear}
            namesChanged={onNamesChanged}
            {...rowProps}
            clear={() => change(NO_FILTER)}
          />
        </>
      )}
      {merging && (
        <MergeDialog entities={others} chosen={filter.about} close={() => setMerging(false)} changed={onNamesChanged} />
      )}
      {adding && <AddFact subjects={subjects} close={() => setAdding(false)} added={reloadAll} />}
      {correcting && <CorrectFact fact={correcting} close={() => setCorrecting(undefined)} corrected={onCorrected} />}
      {forgetting && (
        <ForgetDialog
          fact={forgetting}
          close={() => setForgetting(undefined)}
          forgotten={() => onForgotten(forgetting.id)}
        />
      )}
    </>
  );
}

function viewOf(query: URLSearchParams): "all" | "timeline" | "review" {
  const view = query.get("view");
  return view === "timeline" || view === "review" ? view : "all";
}

const NO_ENTITIES: Entity[] = [];
const NO_FILTER = { q: undefined, about: undefined, topic: undefined, at: undefined, past: undefined };

type RowProps = { actions: FactActions; correct: (fact: Fact) => void; forget: (fact: Fact) => void };

/** The fact that the address names, such as the one that Why or a search links to. */
function useLinkedFact(id: string | null, user: string): Loaded<Fact | null> {
  return useLoad<Fact | null>(
    async (signal) => {
      if (!id) return null;
      try {
        return await get("/api/facts/{id}", { path: { id }, query: { user }, signal });
      } catch (error) {
        if (error instanceof Problem && error.status === 404) throw new Error("The linked fact was forgotten.");
        throw error;
      }
    },
    [id, user],
  );
}

function LinkedFact({ linked, close, ...rowProps }: RowProps & { linked: Loaded<Fact | null>; close: () => void }) {
  if (linked.error) return <Failure error={linked.error} retry={linked.reload} />;
  if (!linked.data) return null;
  return (
    <section aria-label="Linked fact">
      <div className={css.linked}>
        <FactRow key={linked.data.id} fact={linked.data} {...rowProps} expanded />
      </div>
      <button type="button" className="link" onClick={close}>
        Close
      </button>
    </section>
  );
}

type ListProps = RowProps & {
  list: Pages<Fact>;
  filter: Filter;
  entities: readonly Entity[];
  /** The ids of facts that may contradict each other. */
  unclear: ReadonlySet<string>;
  namesChanged: () => void;
  clear: () => void;
};

function FactList({ list, filter, entities, unclear, namesChanged, clear, ...rowProps }: ListProps) {
  const { user } = useApp();
  const isEmpty = !list.loading && !list.error && list.items.length === 0;
  return (
    <>
      <div className={css.groups} inert={list.stale} aria-busy={list.stale}>
        {bySubject(list.items, entities).map(({ subject, aliases, facts }) => (
          <section key={subject} className={css.group} aria-label={subjectName(subject, user)}>
            <header>
              <h2>{subjectName(subject, user)}</h2>
              {subject === ABOUT_USER && <span className="quiet">the user</span>}
              <Aliases name={subject} aliases={aliases} changed={namesChanged} />
            </header>
            <ul className={css.list}>
              {facts.map((fact) => (
                <li key={fact.id}>
                  <FactRow fact={fact} unclear={unclear.has(fact.id)} {...rowProps} />
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
      {list.error ? <Failure error={list.error} retry={list.retry} /> : null}
      {list.loading && !list.items.length && <Loading label="Loading facts" />}
      {isEmpty && <NoFacts filtered={isFiltered(filter)} clear={clear} />}
      {list.hasMore && (
        <button type="button" onClick={list.more} disabled={list.loading}>
          {list.loading ? "Loading…" : "Show older facts"}
        </button>
      )}
    </>
  );
}

/** The search box; the list is loaded shortly after the last keystroke. */
function SearchBox({ text, search }: { text: string; search: (text: string) => void }) {
  const [typed, setTyped] = useDebouncedText(text, search, 250);
  return (
    <input
      type="search"
      value={typed}
      aria-label="Search facts"
      placeholder="Search facts"
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}

type FilterProps = { filter: Filter; subjects: readonly string[]; change: PageState["change"] };

type AboutProps = { about: string; subjects: readonly string[]; change: PageState["change"] };

function AboutFilter({ about, subjects, change }: AboutProps) {
  const { user } = useApp();
  const options = [...new Set([ABOUT_USER, ...subjects, ...(about ? [about] : [])])];
  return (
    <label className={css.filter}>
      <span>About</span>
      <select value={about} onChange={(event) => change({ about: event.target.value || undefined })}>
        <option value="">Everyone</option>
        {options.map((subject) => (
          <option key={subject} value={subject}>
            {subjectName(subject, user)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Filters({ filter, subjects, change }: FilterProps) {
  return (
    <search className="toolbar">
      <AboutFilter about={filter.about} subjects={subjects} change={change} />
      <label className={css.filter}>
        <span>Topic</span>
        <select value={filter.topic} onChange={(event) => change({ topic: event.target.value || undefined })}>
          <option value="">All</option>
          {Object.entries(TOPICS).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
      {!filter.text && (
        <>
          <label className={css.filter}>
            <span>As of</span>
            <input
              type="date"
              value={filter.day}
              onChange={(event) => change({ at: event.target.value || undefined }, true)}
            />
          </label>
          {!filter.day && (
            <label className="check">
              <input
                type="checkbox"
                checked={filter.past}
                onChange={(event) => change({ past: event.target.checked ? "1" : undefined })}
              />
              Also past facts
            </label>
          )}
        </>
      )}
      {isFiltered(filter) && (
        <button type="button" className="plain" onClick={() => change(NO_FILTER)}>
          Clear
        </button>
      )}
    </search>
  );
}

/** The reason for an empty list, and what to do about it. */
function NoFacts({ filtered, clear }: { filtered: boolean; clear: () => void }) {
  const { user, may } = useApp();
  if (filtered)
    return (
      <Empty title="No fact matches">
        <p>No fact about {user} and what they talk about matches the search and filters.</p>
        <button type="button" onClick={clear}>
          Show all facts
        </button>
      </Empty>
    );
  return (
    <Empty title="No facts yet">
      <p>
        A fact is one sentence that is known about {user}, or about the people and things they talk about: “Clara lives
        in Lisbon.” Facts are learned from conversations. Each is linked to the message that says so, and its history
        shows when it changed. All agents share them.
      </p>
      <p>Tell an agent something about yourself in the chat{may("write") ? ", or add a fact here" : ""}.</p>
    </Empty>
  );
}
