// Search all memories; the query is part of the address.
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { get, post } from "../../api/client";
import type { SearchResults } from "../../api/index";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { conversationName } from "../../app/conversation";
import { go, useRoute } from "../../app/route";
import RefViewer from "../../refs/RefViewer";
import { NO_KEYWORD_MATCH, noKeywordMatch } from "../../refs/signals";
import { useDebouncedText } from "../../ui/addressText";
import { Empty, Failure, Loading } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { Filters } from "./Filters";
import { HitCard, type SessionNames } from "./HitCard";
import { Legs } from "./Legs";
import { addressOf, parseQuery, type SearchQuery, span } from "./query";
import css from "./search.module.css";

const STEP = 20;
const RESULT_LIMIT = 100;
const MIN_SCORE = 0.001; // less likely hits are noise; the command line omits them, too

export default function Search() {
  const { query } = useRoute();
  const search = parseQuery(query);
  const change = (changed: Partial<SearchQuery>, replace = false) => go(addressOf({ ...search, ...changed }), replace);
  // Add one history entry per search, not one per letter.
  const [typed, setTyped] = useDebouncedText(search.q, (q, previous) =>
    change({ q }, previous.trim() !== "" && q.trim() !== ""),
  );
  useTitle(search.q ? `${search.q} · Search` : "Search");
  const page = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLInputElement>(null);
  useSlash(box);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrows go between the links inside, which are operable without
    <div className="page" ref={page} onKeyDown={(event) => walk(event, page.current, box.current)}>
      <header>
        <h1>Search</h1>
      </header>
      <search className={css.searchAsk}>
        <input
          ref={box}
          type="search"
          aria-label="Search everything"
          placeholder="Search all memories"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          autoFocus
        />
        <Filters search={search} change={change} />
      </search>
      {search.q.trim() ? <Results search={search} change={change} /> : <Hint ask={setTyped} />}
    </div>
  );
}

type Loaded = { results: SearchResults; sessions: SessionNames; question: string };

function Results({ search, change }: { search: SearchQuery; change: (change: Partial<SearchQuery>) => void }) {
  const { user } = useApp();
  const address = addressOf(search);
  const [more, setMore] = useState({ address, limit: STEP });
  const limit = more.address === address ? more.limit : STEP; // a new query starts with the first page
  const [opened, setOpened] = useState<string | null>(null);
  const knownNames = useRef<SessionNames>({});
  const loaded = useLoad<Loaded>(
    async (signal) => {
      const { q, kinds, session, agent } = search;
      const body = {
        query: q,
        kinds: kinds.length ? kinds : null,
        session: session || null,
        limit,
        min_score: MIN_SCORE,
      };
      const query = { user, agent: agent || undefined };
      const results = await post("/api/search", { query, body: { ...body, ...span(search), at: null }, signal });
      return { results, sessions: await loadNames(results, knownNames.current, user, signal), question: q };
    },
    [address, user, limit],
  );
  if (loaded.error) return <Failure error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading label="Searching" />;
  const { results, sessions, question } = loaded.data;
  const found = [...results.data, ...results.facts];
  return (
    <div className={css.searchFound} aria-busy={loaded.loading}>
      {noKeywordMatch(found) && <p role="status">{NO_KEYWORD_MATCH}</p>}
      {found.length === 0 && <NoResults search={search} change={change} />}
      <Legs results={results} />
      {[
        { label: "Facts", hits: results.facts },
        { label: "Found", hits: results.data },
      ].map(
        ({ label, hits }) =>
          hits.length > 0 && (
            <ol key={label} className={css.hits} aria-label={label}>
              {hits.map((hit) => (
                <li key={`${hit.kind} ${hit.id} ${hit.seq}`}>
                  <HitCard hit={hit} question={question} sessions={sessions} openRef={setOpened} />
                </li>
              ))}
            </ol>
          ),
      )}
      {results.data.length >= limit && limit < RESULT_LIMIT && (
        <button
          type="button"
          onClick={() => setMore({ address, limit: Math.min(limit + 2 * STEP, RESULT_LIMIT) })}
          disabled={loaded.loading}
        >
          Show more
        </button>
      )}
      {opened && <RefViewer refKey={opened} close={() => setOpened(null)} />}
    </div>
  );
}

/** The names of the conversations of the hits, each requested once; a deleted one has no name. */
async function loadNames(
  results: SearchResults,
  knownNames: SessionNames,
  user: string,
  signal: AbortSignal,
): Promise<SessionNames> {
  const ids = new Set(results.data.flatMap((hit) => (hit.session && !knownNames[hit.session] ? [hit.session] : [])));
  await Promise.all(
    [...ids].map(async (id) => {
      const session = await get("/api/chat/sessions/{id}", { path: { id }, query: { user }, signal }).catch(() => null);
      if (session) knownNames[id] = { agent: session.agent, label: conversationName(session) };
    }),
  );
  return { ...knownNames };
}

function Hint({ ask }: { ask: (question: string) => void }) {
  const examples = ["Where does my sister live?", "What did we plan last week?", "error"];
  return (
    <Empty title="Ask in your own words">
      <p>
        One search over conversations, facts, notes, entries, references, state and documents, by words and by meaning.
        Press <kbd>/</kbd> to return to the search box, and the arrow keys to move between results.
      </p>
      <div className="toolbar">
        {examples.map((example) => (
          <button key={example} type="button" className="chip" onClick={() => ask(example)}>
            {example}
          </button>
        ))}
      </div>
    </Empty>
  );
}

function NoResults({ search, change }: { search: SearchQuery; change: (change: Partial<SearchQuery>) => void }) {
  const narrowed = search.kinds.length > 0 || search.since || search.until || search.agent || search.session;
  return (
    <Empty title="Nothing found">
      <p>Try fewer or different words. New content is found by keyword at once, and by meaning after a moment.</p>
      {narrowed && (
        <button type="button" onClick={() => change({ kinds: [], since: "", until: "", agent: "", session: "" })}>
          Search everything instead
        </button>
      )}
    </Empty>
  );
}

/** Focus the search box with `/`, unless the user is typing. */
function useSlash(box: React.RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest("dialog"))
        return;
      event.preventDefault();
      box.current?.focus();
      box.current?.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [box]);
}

/** Move between the search box and the hits with the arrow keys. */
function walk(event: KeyboardEvent, page: HTMLElement | null, box: HTMLInputElement | null): void {
  if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || !page) return;
  const target = event.target as HTMLElement;
  const hits = [...page.querySelectorAll<HTMLElement>("[data-hit]")];
  const index = hits.indexOf(target);
  if (index < 0 && target !== box) return;
  const next = index + (event.key === "ArrowDown" ? 1 : -1);
  const to = next < 0 ? (index === 0 ? box : null) : hits[next];
  if (!to) return;
  event.preventDefault();
  to.focus();
  to.closest("article")?.scrollIntoView({ block: "nearest" });
}
