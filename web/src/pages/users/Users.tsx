// The list of users with stored data.
import { useState } from "react";
import type { StoredUser } from "../../api";
import { get } from "../../api/client";
import { useDebounced } from "../../api/debounced";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to, useRoute } from "../../app/route";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { useTitle } from "../../ui/title";
import { Demo } from "./Demo";
import { User } from "./User";
import css from "./users.module.css";

export default function Users() {
  const { parts } = useRoute();
  const { may, user } = useApp();
  if (parts[1]) return <User key={parts[1]} name={parts[1]} />;
  return may("admin") ? <List /> : <User name={user} />;
}

function List() {
  const [typed, setTyped] = useState("");
  const search = useDebounced(typed.trim(), 200);
  useTitle("Users");
  const users = usePages<StoredUser>(
    (after, signal) => get("/api/users", { query: { search, limit: 100, after }, signal }),
    [search],
  );
  return (
    <div className="page">
      <header>
        <h1>Users</h1>
      </header>
      <div className="toolbar">
        <input
          type="search"
          aria-label="Search users"
          placeholder="Search users"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
        <Demo changed={users.reload} />
      </div>
      {users.error ? <Failure error={users.error} retry={users.retry} /> : null}
      {users.loading && !users.items.length && <Loading label="Loading users" />}
      {!users.loading && !users.error && !users.items.length && <NoUsers search={search} />}
      {users.items.length > 0 && <Table users={users.items} />}
      {users.hasMore && (
        <button type="button" onClick={users.more} disabled={users.loading}>
          More users
        </button>
      )}
    </div>
  );
}

function NoUsers({ search }: { search: string }) {
  if (search) return <Empty title={`No user’s name contains “${search}”`} />;
  return (
    <Empty title="There are no users with data yet">
      <p>A user appears here with the first message, note or fact that is stored for them.</p>
      <p>
        <Link href="/chat">Start a conversation</Link>
      </p>
    </Empty>
  );
}

const COLUMNS = ["Conversations", "Facts", "Entries", "Notes", "References", "Documents", "State"];

function Table({ users }: { users: StoredUser[] }) {
  const { user, choose } = useApp();
  const show = (name: string) => {
    choose(name);
    go("/chat");
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="table" tabIndex={0}>
      <table className={css.users}>
        <thead>
          <tr>
            <th scope="col">User</th>
            {COLUMNS.map((name) => (
              <th key={name} scope="col" className="number">
                {name}
              </th>
            ))}
            <th scope="col">Last active</th>
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((item) => (
            <tr key={item.user}>
              <th scope="row">
                <Link href={to(["users", item.user])}>{item.user}</Link>
                {item.user === user && <span className="chip accent">current</span>}
                {item.pending > 0 && <span className="chip warn">{count(item.pending)} waiting for review</span>}
              </th>
              {[item.conversations, item.facts, item.memories, item.notes, item.refs, item.documents, item.state].map(
                (value, index) => (
                  <td key={COLUMNS[index]} className="number">
                    {count(value)}
                  </td>
                ),
              )}
              <td>
                <Time at={item.last_active_at} />
              </td>
              <td>
                {item.user !== user && (
                  <button type="button" aria-label={`Switch to ${item.user}`} onClick={() => show(item.user)}>
                    Switch
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
