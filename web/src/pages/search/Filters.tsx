// Search filters: kinds, times, owner, conversation.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { conversationName } from "../../app/conversation";
import { useWho } from "../../app/who";
import { type Asked, KINDS, ownDays, TITLES } from "./asked";
import css from "./search.module.css";

type Shown = { asked: Asked; change: (change: Partial<Asked>) => void };

export function Filters({ asked, change }: Shown) {
  const { user } = useWho();
  const [chosen, setChosen] = useState(false); // days of one's own, though none is given yet
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
  const turn = (kind: Asked["kinds"][number]) =>
    change({ kinds: KINDS.filter((one) => (one === kind) !== asked.kinds.includes(one)) });
  const own = chosen || ownDays(asked);
  const when = own ? "own" : asked.since;
  const { agents = [], sessions = [], cut = [] } = from.data ?? {};
  const names = new Set([...agents.map((one) => one.name), ...sessions.map((one) => one.agent), asked.agent]);
  return (
    <div className={css.searchFilters}>
      <fieldset className={css.searchKinds}>
        <legend className="visually-hidden">Kinds</legend>
        {KINDS.map((kind) => (
          <button
            key={kind}
            type="button"
            className={asked.kinds.includes(kind) ? "chip accent" : "chip"}
            aria-pressed={asked.kinds.includes(kind)}
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
            setChosen(event.target.value === "own");
            change({ since: event.target.value === "own" ? "" : event.target.value, until: "" });
          }}
        >
          <option value="">Any time</option>
          <option value="day">The last day</option>
          <option value="week">The last week</option>
          <option value="month">The last month</option>
          <option value="own">Custom range…</option>
        </select>
        {own && (
          <>
            <input
              type="date"
              aria-label="From"
              value={asked.since}
              onChange={(event) => change({ since: event.target.value })}
            />
            <input
              type="date"
              aria-label="Until"
              value={asked.until}
              onChange={(event) => change({ until: event.target.value })}
            />
          </>
        )}
        <select aria-label="Agent" value={asked.agent} onChange={(event) => change({ agent: event.target.value })}>
          <option value="">All agents</option>
          {[...names].filter(Boolean).map((name) => (
            <option key={name}>{name}</option>
          ))}
          {cut[0] && <option disabled>Only 100 are listed</option>}
        </select>
        <select
          aria-label="Conversation"
          value={asked.session}
          onChange={(event) => change({ session: event.target.value })}
        >
          <option value="">All conversations</option>
          {asked.session && !sessions.some((one) => one.id === asked.session) && (
            <option value={asked.session}>This conversation</option>
          )}
          {sessions.map((one) => (
            <option key={one.id} value={one.id}>
              {conversationName(one)}
            </option>
          ))}
          {cut[1] && <option disabled>Only the newest 100 are listed</option>}
        </select>
      </div>
    </div>
  );
}
