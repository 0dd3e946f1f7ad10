// The review queue: entries from untrusted sources, which no prompt contains until a person accepts them.

import type { Virtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useEffectEvent, useRef, useState } from "react";
import { get, post, told } from "../../api/client";
import type { Entry } from "../../api/index";
import { usePages } from "../../api/load";
import { useWho } from "../../app/who";
import { Empty, Failure, Loading } from "../../ui/states";
import { say } from "../../ui/toast";
import { VirtualList } from "../../ui/VirtualList";
import css from "./operations.module.css";
import { Waiting } from "./Waiting";

type Decision = "accept" | "refuse";
const DONE = { accept: "Accepted", refuse: "Refused" };
const OTHER = { accept: "refuse", refuse: "accept" } as const;

const decide = (entry: Entry, decision: Decision, version?: number) =>
  post(`/api/entries/{id}/${decision}`, { path: { id: entry.id }, body: { if_version: version } });

export function Review({ changed }: { changed: () => void }) {
  const { may } = useWho();
  const [which, setWhich] = useState<"pending" | "refused">("pending");
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [failed, setFailed] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLElement>(null);
  const list = useRef<Virtualizer<HTMLDivElement, Element>>(null);
  const queue = usePages<Entry>(
    (after, signal) => get("/api/entries/queue", { query: { review: which, limit: 100, after }, signal }),
    [which],
  );
  const { items } = queue;
  const here = Math.min(at, items.length - 1);
  const started = items.length > 0;
  /** Make one the current one: in sight, and with the focus, so that the keys are about it. */
  const focus = (place: number) => {
    const to = Math.max(0, Math.min(items.length - 1, place));
    setAt(to);
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
    const wrong: Record<string, string> = {};
    for (const entry of entries) {
      try {
        await decide(entry, decision, entry.version);
        done.push(entry);
      } catch (error) {
        wrong[entry.id] = told(error);
      }
    }
    const gone = new Set(done.map((entry) => entry.id));
    queue.edit((all) => all.filter((entry) => !gone.has(entry.id)));
    setChosen((before) => new Set([...before].filter((id) => !gone.has(id))));
    setFailed(wrong);
    setBusy(false);
    changed();
    if (done.length) tell(done, decision);
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-at="${here}"]`)?.focus());
  };
  const tell = (done: Entry[], decision: Decision) => {
    const instead = async () => {
      for (const entry of done) await decide(entry, OTHER[decision]).catch((error) => say(told(error)));
      say(`${DONE[OTHER[decision]]} instead`);
      queue.reload();
      changed();
    };
    const what = done.length > 1 ? `${done.length} entries` : `An entry of ${done[0]?.agent}`;
    say(`${DONE[decision]}: ${what}`, instead, decision === "accept" ? "Refuse instead" : "Accept instead");
  };
  const pick = (entry: Entry) =>
    setChosen((before) => {
      const next = new Set(before);
      if (!next.delete(entry.id)) next.add(entry.id);
      return next;
    });
  const press = (event: KeyboardEvent) => {
    const entry = items[here];
    const on = event.target as HTMLElement; // letters are for the entry that has the focus: elsewhere they mean other things
    if (event.ctrlKey || event.metaKey || event.altKey || !entry || !on.matches("[data-at]")) return;
    const acts: Record<string, () => void> = {
      j: () => focus(here + 1),
      k: () => focus(here - 1),
      x: () => pick(entry),
      ...(may("write") && !busy && !event.repeat && { a: () => settle([entry], "accept") }),
      ...(may("write") && !busy && !event.repeat && which === "pending" && { r: () => settle([entry], "refuse") }),
    };
    const act = acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const selected = items.filter((entry) => chosen.has(entry.id));
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
          label={which === "pending" ? "Entries that wait" : "Refused entries"}
          className={css.tall}
          nearEnd={queue.more}
          stale={queue.stale}
          handle={list}
        >
          {(entry, nth) => (
            <Waiting
              entry={entry}
              place={nth}
              here={nth === here}
              chosen={chosen.has(entry.id)}
              wrong={failed[entry.id]}
              come={() => setAt(nth)}
              pick={() => pick(entry)}
              accept={may("write") ? () => settle([entry], "accept") : undefined}
              refuse={may("write") && which === "pending" ? () => settle([entry], "refuse") : undefined}
              busy={busy}
            />
          )}
        </VirtualList>
      )}
      {queue.loading && <Loading what="Loading the review queue" />}
      {!items.length && !queue.loading && !queue.error && <Nothing which={which} />}
    </section>
  );
}

function Nothing({ which }: { which: "pending" | "refused" }) {
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
