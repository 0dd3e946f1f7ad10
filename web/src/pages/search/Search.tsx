// Search everything that is remembered; the query is part of the address.
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { get, post } from "../../api/client";
import type { SearchResults } from "../../api/index";
import { useLoad } from "../../api/load";
import { conversationName } from "../../app/conversation";
import { go, useRoute } from "../../app/route";
import { useWho } from "../../app/who";
import RefViewer from "../../refs/RefViewer";
import { WORDLESS, wordless } from "../../refs/signals";
import { Empty, Failure, Loading } from "../../ui/states";
import { useTitle } from "../../ui/title";
import { useTyped } from "../../ui/typed";
import { type Asked, addressOf, askedIn, span } from "./asked";
import { Filters } from "./Filters";
import { HitCard, type Named } from "./HitCard";
import { Legs } from "./Legs";
import css from "./search.module.css";

const STEP = 20;
const MOST = 100;
const MIN_SCORE = 0.001; // what is less likely than this is noise; the command line leaves it out too

export default function Search() {
  const { query } = useRoute();
  const asked = askedIn(query);
  const change = (changed: Partial<Asked>, replace = false) => go(addressOf({ ...asked, ...changed }), replace);
  // One way back for a search, not for each letter.
  const [typed, setTyped] = useTyped(asked.q, (q, before) => change({ q }, before.trim() !== "" && q.trim() !== ""));
  useTitle(asked.q ? `${asked.q} · Search` : "Search");
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
          placeholder="Search everything that is remembered"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          autoFocus
        />
        <Filters asked={asked} change={change} />
      </search>
      {asked.q.trim() ? <Results asked={asked} change={change} /> : <Hint ask={setTyped} />}
    </div>
  );
}

type Loaded = { found: SearchResults; sessions: Named; question: string };

function Results({ asked, change }: { asked: Asked; change: (change: Partial<Asked>) => void }) {
  const { user } = useWho();
  const address = addressOf(asked);
  const [more, setMore] = useState({ address, limit: STEP });
  const limit = more.address === address ? more.limit : STEP; // another question begins with few
  const [opened, setOpened] = useState<string | null>(null);
  const known = useRef<Named>({});
  const loaded = useLoad<Loaded>(
    async (signal) => {
      const { q, kinds, session, agent } = asked;
      const body = {
        query: q,
        kinds: kinds.length ? kinds : null,
        session: session || null,
        limit,
        min_score: MIN_SCORE,
      };
      const query = { user, agent: agent || undefined };
      const found = await post("/api/search", { query, body: { ...body, ...span(asked), at: null }, signal });
      return { found, sessions: await named(found, known.current, user, signal), question: q };
    },
    [address, user, limit],
  );
  if (loaded.error) return <Failure error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading what="Searching" />;
  const { found, sessions, question } = loaded.data;
  return (
    <div className={css.searchFound} aria-busy={loaded.loading}>
      {wordless(found.hits) && <p role="status">{WORDLESS}</p>}
      {found.hits.length === 0 && <Nothing asked={asked} change={change} />}
      <Legs found={found} />
      {found.hits.length > 0 && (
        <ol className={css.hits} aria-label="Found">
          {found.hits.map((hit) => (
            <li key={`${hit.kind} ${hit.id} ${hit.seq}`}>
              <HitCard hit={hit} question={question} sessions={sessions} openRef={setOpened} />
            </li>
          ))}
        </ol>
      )}
      {found.hits.length >= limit && limit < MOST && (
        <button
          type="button"
          onClick={() => setMore({ address, limit: Math.min(limit + 2 * STEP, MOST) })}
          disabled={loaded.loading}
        >
          Show more
        </button>
      )}
      {opened && <RefViewer refKey={opened} close={() => setOpened(null)} />}
    </div>
  );
}

/** The conversations that hits are from, each asked for once; one that is gone meanwhile has no name. */
async function named(found: SearchResults, known: Named, user: string, signal: AbortSignal): Promise<Named> {
  const ids = new Set(found.hits.flatMap((hit) => (hit.session && !known[hit.session] ? [hit.session] : [])));
  await Promise.all(
    [...ids].map(async (id) => {
      const one = await get("/api/chat/sessions/{id}", { path: { id }, query: { user }, signal }).catch(() => null);
      if (one) known[id] = { agent: one.agent, label: conversationName(one) };
    }),
  );
  return { ...known };
}

function Hint({ ask }: { ask: (question: string) => void }) {
  const examples = ["Where does my sister live?", "What did we plan last week?", "error"];
  return (
    <Empty title="Ask in your own words">
      <p>
        One search over conversations, notes, agents’ memory, stored outputs, state and documents, by words and by
        meaning. Press <kbd>/</kbd> to come back to the box, and the arrows to go from hit to hit.
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

function Nothing({ asked, change }: { asked: Asked; change: (change: Partial<Asked>) => void }) {
  const narrowed = asked.kinds.length > 0 || asked.since || asked.until || asked.agent || asked.session;
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

/** `/` goes to the box, unless somebody is writing. */
function useSlash(box: React.RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const press = (event: globalThis.KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || at.closest("dialog")) return;
      event.preventDefault();
      box.current?.focus();
      box.current?.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [box]);
}

/** Arrows go from the box to the hits, from hit to hit, and back. */
function walk(event: KeyboardEvent, page: HTMLElement | null, box: HTMLInputElement | null): void {
  if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || !page) return;
  const at = event.target as HTMLElement;
  const hits = [...page.querySelectorAll<HTMLElement>("[data-hit]")];
  const here = hits.indexOf(at);
  if (here < 0 && at !== box) return;
  const next = here + (event.key === "ArrowDown" ? 1 : -1);
  const to = next < 0 ? (here === 0 ? box : null) : hits[next];
  if (!to) return;
  event.preventDefault();
  to.focus();
  to.closest("article")?.scrollIntoView({ block: "nearest" });
}
