// The search box and filters of an agent's memory; the counts also act as filters.
import { useState } from "react";
import { useApp } from "../../app/context";
import { Segments } from "../../ui/Segments";
import { count } from "../../ui/time";
import css from "./agents.module.css";
import { type Filter, folded, NO_FILTER } from "./filters";

type Props = { filter: Filter; change: (filter: Filter) => void; counts: Record<string, number> | undefined };

export function Filters({ filter, change, counts }: Props) {
  const [open, setOpen] = useState(false);
  const set = (part: Partial<Filter>) => change({ ...filter, ...part });
  const more = folded(filter);
  const { core = 0, journal = 0 } = counts ?? {};
  const amount = (label: string, value: number) => (
    <>
      {label} {counts && <span className={css.amount}>{count(value)}</span>}
    </>
  );
  const kinds = [
    ["", amount("All", core + journal)],
    ["core", amount("Core", core)],
    ["journal", amount("Journal", journal)],
  ] as const;
  return (
    <search className={css.entryFilters}>
      <div className="toolbar">
        <input
          type="search"
          aria-label="Search this memory"
          placeholder="Search this memory"
          value={filter.text}
          onChange={(event) => set({ text: event.target.value })}
        />
        <select
          aria-label="How to search"
          value={filter.meaning ? "meaning" : "words"}
          onChange={(event) => set({ meaning: event.target.value === "meaning" })}
        >
          <option value="words">by words</option>
          <option value="meaning">by meaning</option>
        </select>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          Filters{more > 0 && ` (${more})`}
        </button>
        <Segments label="Kind" choices={kinds} chosen={filter.kind} choose={(kind) => set({ kind })} />
      </div>
      {open && <More filter={filter} set={set} />}
    </search>
  );
}

function More({ filter, set }: { filter: Filter; set: (part: Partial<Filter>) => void }) {
  const { user, choosable } = useApp();
  return (
    <div className={`toolbar ${css.entryMore}`}>
      <label>
        Shown
        <select value={filter.state} onChange={(event) => set({ state: event.target.value as Filter["state"] })}>
          <option value="">everything</option>
          <option value="fresh">not expired</option>
          <option value="faded">expired</option>
          <option value="pending">waiting for review</option>
          <option value="refused">refused</option>
        </select>
      </label>
      <label>
        From
        <input type="date" value={filter.since} onChange={(event) => set({ since: event.target.value })} />
      </label>
      <label>
        To
        <input type="date" value={filter.until} onChange={(event) => set({ until: event.target.value })} />
      </label>
      {choosable && (
        <label>
          Used with
          <select
            value={filter.everybody ? "everybody" : "user"}
            onChange={(event) => set({ everybody: event.target.value === "everybody" })}
          >
            <option value="user">{user}</option>
            <option value="everybody">all users</option>
          </select>
        </label>
      )}
      <button type="button" className="plain" onClick={() => set({ ...NO_FILTER, meaning: filter.meaning })}>
        Clear all
      </button>
    </div>
  );
}
