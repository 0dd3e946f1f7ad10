// The user's conversations: search by name and content, rename, open, delete.
import { useEffect, useRef, useState } from "react";
import { get, post, remove } from "../../api/client";
import { useDebounced } from "../../api/debounced";
import type { ChatSession } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { conversationName } from "../../app/conversation";
import { go, to } from "../../app/route";
import { NO_KEYWORD_MATCH, noKeywordMatch } from "../../refs/signals";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Time } from "../../ui/time";
import { notify } from "../../ui/toast";
import css from "./chat.module.css";
import { keepDraft } from "./draft";
import { removeMessages as forget } from "./outbox";
import { SessionItem } from "./SessionItem";
import { remember } from "./session";

type Props = {
  /** The open conversation and its number of messages; when it grows, the list is loaded again. */
  current: string | null;
  grown: string;
  agent: string;
  startNew: () => void;
  /** Called when a conversation or hit was chosen. */
  onChosen: () => void;
  removed: (id: string) => void;
};

export function Sessions({ current, grown, agent, startNew, onChosen, removed }: Props) {
  const { user, may } = useApp();
  const [typed, setTyped] = useState("");
  const search = useDebounced(typed.trim(), 250);
  const [deleting, setDeleting] = useState<ChatSession | null>(null);
  const [failed, setFailed] = useState<{ error: unknown; retry: () => void }>();
  const page = (after?: string, signal?: AbortSignal) =>
    get("/api/chat/sessions", { query: { user, search, spoken: true, after, limit: 30 }, signal });
  const pages = usePages(page, [user, search]);
  useChange(grown, () => {
    if (search) return;
    page().then(
      // Prepend the newest conversations; the ones already loaded stay.
      ({ data }) =>
        pages.edit((items) => [...data, ...items.filter((old) => !data.some((item) => item.id === old.id))]),
      () => {}, // the conversation shows the connection error
    );
  });
  const open = async (session: ChatSession) => {
    setFailed(undefined);
    try {
      if (may("write")) await post("/api/chat/sessions", { body: { user, session_id: session.id } });
      remember(user, session.agent, session.id);
      go(to(["chat", session.agent, session.id]));
      onChosen();
    } catch (error) {
      setFailed({ error, retry: () => open(session) });
    }
  };
  const deleteSession = async (session: ChatSession) => {
    setDeleting(null);
    setFailed(undefined);
    try {
      await remove("/api/sessions/{id}", { path: { id: session.id }, query: { user } });
      pages.edit((items) => items.filter((item) => item.id !== session.id));
      forget(user, (outgoing) => outgoing.session === session.id);
      keepDraft(user, session.id, { text: "", images: [] });
      notify("The conversation is deleted.");
      removed(session.id);
    } catch (error) {
      setFailed({ error, retry: () => deleteSession(session) });
    }
  };
  const shown = pages.items;
  return (
    <section className={css.sessions} aria-label="Conversations">
      <div className={css.sessionsHead}>
        {may("write") && (
          <button type="button" onClick={startNew} title="Alt+N">
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
              current={session.id === current}
              open={() => open(session)}
              remove={may("delete") ? () => setDeleting(session) : undefined}
              renamed={(next) => pages.edit((items) => items.map((item) => (item.id === next.id ? next : item)))}
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
        {search && <MessageMatches search={search} agent={agent} onChosen={onChosen} />}
      </div>
      {deleting && (
        <Confirm
          title="Delete this conversation?"
          yes="Delete"
          onConfirm={() => deleteSession(deleting)}
          close={() => setDeleting(null)}
        >
          <p>
            “{conversationName(deleting)}” with {deleting.agent} and all that was said in it will be gone, also the
            stored outputs that belong to it. What the agent remembers elsewhere stays.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Run a callback when a value changes, but not for its first value. */
function useChange(value: unknown, callback: () => void): void {
  const previous = useRef(value);
  useEffect(() => {
    if (previous.current === value) return;
    previous.current = value;
    callback();
  });
}

/** Messages of all conversations that match the search. */
function MessageMatches({ search, agent, onChosen }: { search: string; agent: string; onChosen: () => void }) {
  const { user } = useApp();
  const results = useLoad(
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
      {results.loading && !results.data && <Loading />}
      {!!results.error && <Failure error={results.error} retry={results.reload} />}
      {results.data?.data.length === 0 && <p className={`quiet ${css.none}`}>No matching messages.</p>}
      {noKeywordMatch(results.data?.data ?? []) && <p className={`quiet ${css.none}`}>{NO_KEYWORD_MATCH}</p>}
      <ul aria-label="Matching messages">
        {results.data?.data.map((hit) => (
          <li key={`${hit.session} ${hit.seq}`}>
            <Link
              className={css.sessionsLink}
              href={to(["chat", agent, hit.session ?? hit.id], { at: String(hit.seq) })}
              onClick={onChosen}
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
