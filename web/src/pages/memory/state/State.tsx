// State: small values under keys, of a user, of all users, or of one conversation; some of them expire.
import { useState } from "react";
import { address, fetchSignedIn, get } from "../../../api/client";
import type { Item } from "../../../api/index";
import { type Page, useLoad, usePages } from "../../../api/load";
import { useApp } from "../../../app/context";
import { conversationName } from "../../../app/conversation";
import { useDebouncedText } from "../../../ui/addressText";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { RemoveDialog } from "./RemoveDialog";
import { StateForm } from "./StateForm";
import { StateRow } from "./StateRow";

export function State() {
  const { user, may } = useApp();
  const { query, change } = usePageState();
  const area = query.get("area") ?? "user";
  const prefix = query.get("prefix") ?? "";
  const [skew, setSkew] = useState(0);
  const [edited, setEdited] = useState<Item | "new">();
  const [removed, setRemoved] = useState<Item>();
  const pages = usePages<Item>(
    async (after, signal) => {
      const requestedAt = Date.now();
      const answer = await fetchSignedIn(address("/api/state", {}, { user, area, prefix, limit: 100, after }), {
        signal,
      });
      setSkew(skewOf(answer.headers.get("Date"), requestedAt));
      return (await answer.json()) as Page<Item>;
    },
    [user, area, prefix],
  );
  const showItem = (item: Item) => pages.edit((items) => withItem(items, item, prefix));
  const hideItem = (removedItem: Item) =>
    pages.edit((items) =>
      items.filter((other) => other.key !== removedItem.key || other.version > removedItem.version),
    );
  return (
    <>
      <div className="toolbar">
        <Areas area={area} choose={(next) => change({ area: next === "user" ? undefined : next })} />
        <Prefix prefix={prefix} search={(next) => change({ prefix: next || undefined }, true)} />
        <button type="button" onClick={pages.reload}>
          Refresh
        </button>
        {may("write") && (
          <button type="button" className="primary" onClick={() => setEdited("new")}>
            <Icon name="plus" /> Add
          </button>
        )}
      </div>
      <PagedList
        pages={pages}
        keyOf={(item) => item.key}
        size={64}
        label="State"
        className={css.rows}
        empty={<NoResults prefix={prefix} area={area} />}
      >
        {(item) => (
          <StateRow
            item={item}
            skew={skew}
            over={() => hideItem(item)}
            edit={may("write") ? () => setEdited(item) : undefined}
            remove={may("delete") ? () => setRemoved(item) : undefined}
          />
        )}
      </PagedList>
      {edited && (
        <StateForm
          item={edited === "new" ? undefined : edited}
          area={area}
          skew={skew}
          saved={showItem}
          close={() => setEdited(undefined)}
        />
      )}
      {removed && (
        <RemoveDialog
          item={removed}
          area={area}
          onRemoved={() => hideItem(removed)}
          close={() => setRemoved(undefined)}
        />
      )}
    </>
  );
}

/** The server's clock minus the local clock in milliseconds; values expire by the server's clock. */
function skewOf(date: string | null, requestedAt: number): number {
  const serverTime = date ? Date.parse(date) : Number.NaN;
  const apart = serverTime + 500 - (requestedAt + Date.now()) / 2;
  return Math.abs(apart) > 1500 ? apart : 0; // the header has whole seconds, so smaller differences are ignored
}

function withItem(items: Item[], item: Item, prefix: string): Item[] {
  const others = items.filter((other) => other.key !== item.key);
  if (!item.key.startsWith(prefix)) return others;
  return [...others, item].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** The owner of the state: a user, all users, or a conversation. */
function Areas({ area, choose }: { area: string; choose: (area: string) => void }) {
  const { user } = useApp();
  const sessions = useLoad((signal) => get("/api/chat/sessions", { query: { user, limit: 50 }, signal }), [user]);
  const options = sessions.data?.data.map((session) => ({ id: session.id, label: conversationName(session) })) ?? [];
  const sessionId = area.startsWith("session:") ? area.slice("session:".length) : null;
  if (sessionId && !options.some((option) => option.id === sessionId))
    options.unshift({ id: sessionId, label: sessionId });
  return (
    <label className={css.picker}>
      <span>Owner</span>
      <select value={area} onChange={(event) => choose(event.target.value)}>
        <option value="user">{user}</option>
        <option value="tenant">All users</option>
        {options.length > 0 && (
          <optgroup label="Conversations">
            {options.map((option) => (
              <option key={option.id} value={`session:${option.id}`}>
                {option.label}
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
}

/** The prefix filter; the list is loaded shortly after the last keystroke. */
function Prefix({ prefix, search }: { prefix: string; search: (prefix: string) => void }) {
  const [text, setText] = useDebouncedText(prefix, search, 250);
  return (
    <input
      type="search"
      value={text}
      aria-label="Keys that begin with"
      placeholder="Keys that begin with…"
      onChange={(event) => setText(event.target.value)}
    />
  );
}

function NoResults({ prefix, area }: { prefix: string; area: string }) {
  const { may } = useApp();
  if (prefix) return <Empty title={`No key begins with “${prefix}”`} />;
  return (
    <Empty title="No state here">
      <p>
        Agents and programs store small values here under keys: settings, counters, the progress of a task
        {area.startsWith("session:") ? " in this conversation" : ""}. {may("write") && "Add one to try it."}
      </p>
    </Empty>
  );
}
