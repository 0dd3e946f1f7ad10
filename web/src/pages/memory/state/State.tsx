// State: small values under keys, of a user, of all users, or of one conversation; some of them expire.
import { useState } from "react";
import { address, fetched, get } from "../../../api/client";
import type { Item } from "../../../api/index";
import { type Page, useLoad, usePages } from "../../../api/load";
import { conversationName } from "../../../app/conversation";
import { useWho } from "../../../app/who";
import { Icon } from "../../../ui/Icon";
import { PagedList } from "../../../ui/PagedList";
import { Empty } from "../../../ui/states";
import { useTyped } from "../../../ui/typed";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { Removing } from "./Removing";
import { StateForm } from "./StateForm";
import { StateRow } from "./StateRow";

export function State() {
  const { user, may } = useWho();
  const { query, ask } = useAsked();
  const area = query.get("area") ?? "user";
  const prefix = query.get("prefix") ?? "";
  const [skew, setSkew] = useState(0);
  const [edited, setEdited] = useState<Item | "new">();
  const [removed, setRemoved] = useState<Item>();
  const pages = usePages<Item>(
    async (after, signal) => {
      const asked = Date.now();
      const answer = await fetched(address("/api/state", {}, { user, area, prefix, limit: 100, after }), { signal });
      setSkew(skewOf(answer.headers.get("Date"), asked));
      return (await answer.json()) as Page<Item>;
    },
    [user, area, prefix],
  );
  const put = (item: Item) => pages.edit((items) => placed(items, item, prefix));
  const drop = (gone: Item) =>
    pages.edit((items) => items.filter((one) => one.key !== gone.key || one.version > gone.version));
  return (
    <>
      <div className="toolbar">
        <Areas area={area} choose={(next) => ask({ area: next === "user" ? undefined : next })} />
        <Prefix prefix={prefix} search={(next) => ask({ prefix: next || undefined }, true)} />
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
        empty={<Nothing prefix={prefix} area={area} />}
      >
        {(item) => (
          <StateRow
            item={item}
            skew={skew}
            over={() => drop(item)}
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
          saved={put}
          close={() => setEdited(undefined)}
        />
      )}
      {removed && (
        <Removing item={removed} area={area} gone={() => drop(removed)} close={() => setRemoved(undefined)} />
      )}
    </>
  );
}

/** How far the server's clock is ahead of this one, in milliseconds: what expires does so by its clock. */
function skewOf(date: string | null, asked: number): number {
  const said = date ? Date.parse(date) : Number.NaN;
  const apart = said + 500 - (asked + Date.now()) / 2;
  return Math.abs(apart) > 1500 ? apart : 0; // the header has whole seconds: less is no difference
}

function placed(items: Item[], item: Item, prefix: string): Item[] {
  const others = items.filter((one) => one.key !== item.key);
  if (!item.key.startsWith(prefix)) return others;
  return [...others, item].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** The owner of the state: a user, all users, or a conversation. */
function Areas({ area, choose }: { area: string; choose: (area: string) => void }) {
  const { user } = useWho();
  const sessions = useLoad((signal) => get("/api/chat/sessions", { query: { user, limit: 50 }, signal }), [user]);
  const known = sessions.data?.data.map((one) => ({ id: one.id, label: conversationName(one) })) ?? [];
  const asked = area.startsWith("session:") ? area.slice("session:".length) : null;
  if (asked && !known.some((one) => one.id === asked)) known.unshift({ id: asked, label: asked });
  return (
    <label className={css.picker}>
      <span>Owner</span>
      <select value={area} onChange={(event) => choose(event.target.value)}>
        <option value="user">{user}</option>
        <option value="tenant">All users</option>
        {known.length > 0 && (
          <optgroup label="Conversations">
            {known.map((one) => (
              <option key={one.id} value={`session:${one.id}`}>
                {one.label}
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
}

/** The beginning of the keys that are wanted; the list follows a moment after the last letter. */
function Prefix({ prefix, search }: { prefix: string; search: (prefix: string) => void }) {
  const [text, setText] = useTyped(prefix, search, 250);
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

function Nothing({ prefix, area }: { prefix: string; area: string }) {
  const { may } = useWho();
  if (prefix) return <Empty title={`No key begins with “${prefix}”`} />;
  return (
    <Empty title="No state here">
      <p>
        Agents and programs keep small values here under keys: settings, counters, the progress of a task
        {area.startsWith("session:") ? " in this conversation" : ""}. {may("write") && "Add one to try it."}
      </p>
    </Empty>
  );
}
