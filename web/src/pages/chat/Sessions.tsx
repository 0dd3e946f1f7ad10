// The user's conversations: search by name and content, rename, open, delete.
import { useEffect, useRef, useState } from "react";
import { get, post, remove } from "../../api/client";
import type { ChatSession } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { useSettled } from "../../api/settled";
import { conversationName } from "../../app/conversation";
import { go, to } from "../../app/route";
import { useWho } from "../../app/who";
import { WORDLESS, wordless } from "../../refs/signals";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Time } from "../../ui/time";
import { say } from "../../ui/toast";
import css from "./chat.module.css";
import { keepDraft } from "./draft";
import { drop as forget } from "./outbox";
import { SessionItem } from "./SessionItem";
import { remember } from "./session";

type Shown = {
  /** The conversation that is shown, and how many messages it has: when it grows, the list is read again. */
  current: string | null;
  grown: string;
  agent: string;
  begin: () => void;
  /** Something was chosen. */
  chosen: () => void;
  removed: (id: string) => void;
};

export function Sessions({ current, grown, agent, begin, chosen, removed }: Shown) {
  const { user, may } = useWho();
  const [typed, setTyped] = useState("");
  const search = useSettled(typed.trim(), 250);
  const [gone, setGone] = useState<ChatSession | null>(null);
  const [failed, setFailed] = useState<{ error: unknown; retry: () => void }>();
  const page = (after?: string, signal?: AbortSignal) =>
    get("/api/chat/sessions", { query: { user, search, spoken: true, after, limit: 30 }, signal });
  const pages = usePages(page, [user, search]);
  useChange(grown, () => {
    if (search) return;
    page().then(
      // The newest come first; what was loaded below them stays.
      ({ data }) => pages.edit((items) => [...data, ...items.filter((old) => !data.some((one) => one.id === old.id))]),
      () => {}, // the conversation says itself that the server is away
    );
  });
  const open = async (session: ChatSession) => {
    setFailed(undefined);
    try {
      if (may("write")) await post("/api/chat/sessions", { body: { user, session_id: session.id } });
      remember(user, session.agent, session.id);
      go(to(["chat", session.agent, session.id]));
      chosen();
    } catch (error) {
      setFailed({ error, retry: () => open(session) });
    }
  };
  const drop = async (session: ChatSession) => {
    setGone(null);
    setFailed(undefined);
    try {
      await remove("/api/sessions/{id}", { path: { id: session.id }, query: { user } });
      pages.edit((items) => items.filter((one) => one.id !== session.id));
      forget(user, (sent) => sent.session === session.id);
      keepDraft(user, session.id, { text: "", images: [] });
      say("The conversation is deleted.");
      removed(session.id);
    } catch (error) {
      setFailed({ error, retry: () => drop(session) });
    }
  };
  const shown = pages.items;
  return (
    <section className={css.sessions} aria-label="Conversations">
      <div className={css.sessionsHead}>
        {may("write") && (
          <button type="button" onClick={begin} title="Alt+N">
            <Icon name="plus" /> New conversation
          </button>
        )}
        <input
          type="search"
          value={typed}
          placeholder="Search conversations"
          aria-label="Search conversations"
          onChange={(event) => setTyped(event.target.value)}
        />
      </div>
      {failed && <Failure error={failed.error} retry={failed.retry} />}
      <div className={css.sessionsAll}>
        {search && <h2>By name</h2>}
        <ul aria-label={search ? "Found by name" : "Conversations"}>
          {shown.map((session) => (
            <SessionItem
              key={session.id}
              session={session}
              here={session.id === current}
              open={() => open(session)}
              remove={may("delete") ? () => setGone(session) : undefined}
              renamed={(next) => pages.edit((items) => items.map((one) => (one.id === next.id ? next : one)))}
            />
          ))}
        </ul>
        {pages.loading && !shown.length && <Loading />}
        {!!pages.error && <Failure error={pages.error} retry={pages.reload} />}
        {!pages.loading && !pages.error && !shown.length && (
          <p className={`quiet ${css.none}`}>
            {search ? "No conversation has this name." : "Conversations appear here once you send a message."}
          </p>
        )}
        {pages.hasMore && (
          <button type="button" className="plain" onClick={pages.more} disabled={pages.loading}>
            More
          </button>
        )}
        {search && <Spoken search={search} agent={agent} chosen={chosen} />}
      </div>
      {gone && (
        <Confirm title="Delete this conversation?" yes="Delete" act={() => drop(gone)} close={() => setGone(null)}>
          <p>
            “{conversationName(gone)}” with {gone.agent} and all that was said in it will be gone, also the stored
            outputs that belong to it. What the agent remembers elsewhere stays.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Do something whenever a value has become another one, not for its first. */
function useChange(value: unknown, act: () => void): void {
  const before = useRef(value);
  useEffect(() => {
    if (before.current === value) return;
    before.current = value;
    act();
  });
}

/** What was said about something, in any conversation. */
function Spoken({ search, agent, chosen }: { search: string; agent: string; chosen: () => void }) {
  const { user } = useWho();
  const found = useLoad(
    (signal) =>
      post("/api/search", {
        query: { user },
        body: { query: search, kinds: ["messages"], limit: 20, min_score: 0 },
        signal,
      }),
    [search, user],
  );
  return (
    <>
      <h2>In messages</h2>
      {found.loading && !found.data && <Loading />}
      {!!found.error && <Failure error={found.error} retry={found.reload} />}
      {found.data?.hits.length === 0 && <p className={`quiet ${css.none}`}>No matching messages.</p>}
      {wordless(found.data?.hits ?? []) && <p className={`quiet ${css.none}`}>{WORDLESS}</p>}
      <ul aria-label="Matching messages">
        {found.data?.hits.map((hit) => (
          <li key={`${hit.session} ${hit.seq}`}>
            <Link
              className={css.sessionsLink}
              href={to(["chat", agent, hit.session ?? hit.id], { at: String(hit.seq) })}
              onClick={chosen}
            >
              <span className={css.excerpt}>{hit.text.slice(0, 160)}</span>
              <span className="quiet">
                {hit.role === "user" ? "You" : hit.author || "Agent"}, <Time at={hit.at} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
