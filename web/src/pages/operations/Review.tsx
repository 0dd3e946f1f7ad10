// The review queue: entries from untrusted sources, which no prompt contains until a person accepts them.

import type { Virtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useEffectEvent, useRef, useState } from "react";
import { errorMessage, get, post } from "../../api/client";
import type { Entry } from "../../api/index";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { Empty, Failure, Loading } from "../../ui/states";
import { notify } from "../../ui/toast";
import { VirtualList } from "../../ui/VirtualList";
import css from "./operations.module.css";
import { ReviewItem } from "./ReviewItem";

type Decision = "accept" | "refuse";
const DONE = { accept: "Accepted", refuse: "Refused" };
const OTHER = { accept: "refuse", refuse: "accept" } as const;

const decide = (entry: Entry, decision: Decision, version?: number) =>
  post(`/api/entries/{id}/${decision}`, { path: { id: entry.id }, body: { if_version: version } });

export function Review({ changed }: { changed: () => void }) {
  const { may } = useApp();
  const [which, setWhich] = useState<"pending" | "refused">("pending");
  const [cursor, setCursor] = useState(0);
  const [selectedIds, setSelectedIds] = useState<ReadonlySet<string>>(new Set());
  const [failed, setFailed] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLElement>(null);
  const list = useRef<Virtualizer<HTMLDivElement, Element>>(null);
  const queue = usePages<Entry>(
    (after, signal) => get("/api/entries/queue", { query: { review: which, limit: 100, after }, signal }),
    [which],
  );
  const { items } = queue;
  const current = Math.min(cursor, items.length - 1);
  const started = items.length > 0;
  /** Make an entry the current one: scroll to it and focus it, so that shortcuts apply to it. */
  const focus = (index: number) => {
    const to = Math.max(0, Math.min(items.length - 1, index));
    setCursor(to);
    list.current?.scrollToIndex(to);
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-at="${to}"]`)?.focus());
  };
  const focusFirst = useEffectEvent(() => focus(0));
  useEffect(() => {
    const idle = document.activeElement === document.body || document.activeElement?.id === "main";
    if (started && idle) focusFirst();
  }, [started]);
  const settle = async (entries: Entry[], decision: Decision) => {
    setBusy(true);
    const done: Entry[] = [];
    const errors: Record<string, string> = {};
    for (const entry of entries) {
      try {
        await decide(entry, decision, entry.version);
        done.push(entry);
      } catch (error) {
        errors[entry.id] = errorMessage(error);
      }
    }
    const doneIds = new Set(done.map((entry) => entry.id));
    queue.edit((queued) => queued.filter((entry) => !doneIds.has(entry.id)));
    setSelectedIds((previous) => new Set([...previous].filter((id) => !doneIds.has(id))));
    setFailed(errors);
    setBusy(false);
    changed();
    if (done.length) report(done, decision);
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-at="${current}"]`)?.focus());
  };
  const report = (done: Entry[], decision: Decision) => {
    const instead = async () => {
      for (const entry of done) await decide(entry, OTHER[decision]).catch((error) => notify(errorMessage(error)));
      notify(`${DONE[OTHER[decision]]} instead`);
      queue.reload();
      changed();
    };
    const label = done.length > 1 ? `${done.length} entries` : `An entry of ${done[0]?.agent}`;
    notify(`${DONE[decision]}: ${label}`, instead, decision === "accept" ? "Refuse instead" : "Accept instead");
  };
  const pick = (entry: Entry) =>
    setSelectedIds((previous) => {
      const next = new Set(previous);
      if (!next.delete(entry.id)) next.add(entry.id);
      return next;
    });
  const press = (event: KeyboardEvent) => {
    const entry = items[current];
    const on = event.target as HTMLElement; // shortcuts apply only to the focused entry
    if (event.ctrlKey || event.metaKey || event.altKey || !entry || !on.matches("[data-at]")) return;
    const actions: Record<string, () => void> = {
      j: () => focus(current + 1),
      k: () => focus(current - 1),
      x: () => pick(entry),
      ...(may("write") && !busy && !event.repeat && { a: () => settle([entry], "accept") }),
      ...(may("write") && !busy && !event.repeat && which === "pending" && { r: () => settle([entry], "refuse") }),
    };
    const action = actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  };
  const selected = items.filter((entry) => selectedIds.has(entry.id));
  return (
    <section ref={box} className={css.review} aria-label="Review" onKeyDown={press}>
      <div className="toolbar">
        <select
          aria-label="Which entries"
          value={which}
          onChange={(event) => setWhich(event.target.value as typeof which)}
        >
          <option value="pending">Waiting</option>
          <option value="refused">Refused</option>
        </select>
        <button type="button" onClick={queue.reload}>
          Refresh
        </button>
        {may("write") && selected.length > 0 && (
          <>
            <button type="button" disabled={busy || queue.stale} onClick={() => settle(selected, "accept")}>
              Accept {selected.length} selected
            </button>
            {which === "pending" && (
              <button
                type="button"
                className="danger"
                disabled={busy || queue.stale}
                onClick={() => settle(selected, "refuse")}
              >
                Refuse {selected.length} selected
              </button>
            )}
          </>
        )}
        {items.length > 0 && (
          <p className={`quiet ${css.legendKeys}`}>
            In the list: <kbd>j</kbd> next, <kbd>k</kbd> back, <kbd>x</kbd> select
            {may("write") && (
              <>
                , <kbd>a</kbd> accept
                {which === "pending" && (
                  <>
                    , <kbd>r</kbd> refuse
                  </>
                )}
              </>
            )}
          </p>
        )}
      </div>
      {!may("write") && <p className="quiet">Your key allows reading only: you cannot accept or refuse entries.</p>}
      {queue.error ? <Failure error={queue.error} retry={queue.reload} /> : null}
      {items.length > 0 && (
        <VirtualList
          items={items}
          keyOf={(entry) => entry.id}
          size={150}
          label={which === "pending" ? "Entries that wait for review" : "Refused entries"}
          className={css.tall}
          nearEnd={queue.more}
          stale={queue.stale}
          handle={list}
        >
          {(entry, nth) => (
            <ReviewItem
              entry={entry}
              index={nth}
              current={nth === current}
              selected={selectedIds.has(entry.id)}
              error={failed[entry.id]}
              come={() => setCursor(nth)}
              pick={() => pick(entry)}
              accept={may("write") ? () => settle([entry], "accept") : undefined}
              refuse={may("write") && which === "pending" ? () => settle([entry], "refuse") : undefined}
              busy={busy}
            />
          )}
        </VirtualList>
      )}
      {queue.loading && <Loading label="Loading the review queue" />}
      {!items.length && !queue.loading && !queue.error && <NoResults which={which} />}
    </section>
  );
}

function NoResults({ which }: { which: "pending" | "refused" }) {
  if (which === "refused") return <Empty title="Nothing was refused" />;
  return (
    <Empty title="Nothing to review">
      <p>
        Core entries and whiteboard lines from tools wait here until a person accepts them. Until then, no prompt
        contains them. The setting <code>review</code> names the sources that need review.
      </p>
    </Empty>
  );
}
