// Search filters: kinds, times, owner, conversation.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { conversationName } from "../../app/conversation";
import { hasOwnDays, KINDS, type SearchQuery, TITLES } from "./query";
import css from "./search.module.css";

type Props = { search: SearchQuery; change: (change: Partial<SearchQuery>) => void };

export function Filters({ search, change }: Props) {
  const { user } = useApp();
  const [ownDaysChosen, setOwnDaysChosen] = useState(false); // a custom period was chosen, though no day is entered yet
  const from = useLoad(
    async (signal) => {
      const [agents, sessions] = await Promise.all([
        get("/api/agents", { query: { limit: 100 }, signal }),
        get("/api/chat/sessions", { query: { user, spoken: true, limit: 100 }, signal }),
      ]);
      return { agents: agents.data, sessions: sessions.data, cut: [agents.next !== null, sessions.next !== null] };
    },
    [user],
  );
  const turn = (kind: SearchQuery["kinds"][number]) =>
    change({ kinds: KINDS.filter((name) => (name === kind) !== search.kinds.includes(name)) });
  const showOwnDays = ownDaysChosen || hasOwnDays(search);
  const when = showOwnDays ? "own" : search.since;
  const { agents = [], sessions = [], cut = [] } = from.data ?? {};
  const names = new Set([...agents.map((item) => item.name), ...sessions.map((item) => item.agent), search.agent]);
  return (
    <div className={css.searchFilters}>
      <fieldset className={css.searchKinds}>
        <legend className="visually-hidden">Kinds</legend>
        {KINDS.map((kind) => (
          <button
            key={kind}
            type="button"
            className={search.kinds.includes(kind) ? "chip accent" : "chip"}
            aria-pressed={search.kinds.includes(kind)}
            onClick={() => turn(kind)}
          >
            {TITLES[kind]}
          </button>
        ))}
      </fieldset>
      <div className="toolbar">
        <select
          aria-label="When"
          value={when}
          onChange={(event) => {
            setOwnDaysChosen(event.target.value === "own");
            change({ since: event.target.value === "own" ? "" : event.target.value, until: "" });
          }}
        >
          <option value="">Any time</option>
          <option value="day">The last day</option>
          <option value="week">The last week</option>
          <option value="month">The last month</option>
          <option value="own">Custom range…</option>
        </select>
        {showOwnDays && (
          <>
            <input
              type="date"
              aria-label="From"
              value={search.since}
              onChange={(event) => change({ since: event.target.value })}
            />
            <input
              type="date"
              aria-label="Until"
              value={search.until}
              onChange={(event) => change({ until: event.target.value })}
            />
          </>
        )}
        <select aria-label="Agent" value={search.agent} onChange={(event) => change({ agent: event.target.value })}>
          <option value="">All agents</option>
          {[...names].filter(Boolean).map((name) => (
            <option key={name}>{name}</option>
          ))}
          {cut[0] && <option disabled>Only 100 are listed</option>}
        </select>
        <select
          aria-label="Conversation"
          value={search.session}
          onChange={(event) => change({ session: event.target.value })}
        >
          <option value="">All conversations</option>
          {search.session && !sessions.some((item) => item.id === search.session) && (
            <option value={search.session}>This conversation</option>
          )}
          {sessions.map((item) => (
            <option key={item.id} value={item.id}>
              {conversationName(item)}
            </option>
          ))}
          {cut[1] && <option disabled>Only the newest 100 are listed</option>}
        </select>
      </div>
    </div>
  );
}
