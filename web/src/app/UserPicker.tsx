// Choose a user: search among users with data. An unknown name is used only after a confirmation, so that a
// typo does not start an empty memory.
import { type FormEvent, useState } from "react";
import { get } from "../api/client";
import { useDebounced } from "../api/debounced";
import { useLoad } from "../api/load";
import { Field } from "../ui/Field";
import { Failure, Loading } from "../ui/states";
import { count, Time } from "../ui/time";
import { useApp } from "./context";
import css from "./shell.module.css";

const SHOWN = 8;

type Props = { choose: (user: string) => void };

export function UserPicker({ choose }: Props) {
  const { may } = useApp();
  const [typed, setTyped] = useState("");
  const name = typed.trim();
  const debounced = useDebounced(name, 200);
  return (
    <form className={css.userPicker} onSubmit={(event) => event.preventDefault()}>
      <Field label="Find a user">
        <input type="text" autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} />
      </Field>
      {may("admin") ? (
        <Matches search={debounced} pending={debounced !== name} choose={choose} />
      ) : (
        debounced && <Unlisted key={debounced} name={debounced} choose={choose} />
      )}
    </form>
  );
}

/** The users whose names contain the text. */
function Matches({ search, pending, choose }: Props & { search: string; pending: boolean }) {
  const { user } = useApp();
  const users = useLoad((signal) => get("/api/users", { query: { search, limit: SHOWN }, signal }), [search]);
  if (users.error) return <Failure error={users.error} retry={users.reload} />;
  if (!users.data) return <Loading label="Loading users" />;
  const { data, next } = users.data;
  const isKnown = data.some((item) => item.user === search);
  const current = !pending && !users.loading;
  return (
    <>
      <ul className={css.userList} aria-label="Users" aria-busy={!current}>
        {data.map((item) => (
          <li key={item.user}>
            <button
              type="button"
              className="plain"
              aria-current={item.user === user ? "true" : undefined}
              onClick={() => choose(item.user)}
            >
              <b>{item.user}</b>
              <span className="quiet">
                {count(item.conversations)} conversations, {count(item.memories)} memories ·{" "}
                <Time at={item.last_active_at} />
              </span>
            </button>
          </li>
        ))}
      </ul>
      {next && <p className="quiet">There are more users. Type part of the name.</p>}
      {current && search && !isKnown && <Unknown name={search} choose={choose} />}
      {current && !search && data.length === 0 && <p className="quiet">There are no users with data yet.</p>}
    </>
  );
}

/** A name, for a key that may not list the users. */
function Unlisted({ name, choose }: Props & { name: string }) {
  const sessions = useLoad(
    (signal) => get("/api/chat/sessions", { query: { user: name, spoken: true, limit: 1 }, signal }),
    [name],
  );
  if (sessions.error) return <Failure error={sessions.error} retry={sessions.reload} />;
  if (!sessions.data) return <Loading label="Looking for this user" />;
  if (sessions.data.data.length === 0) return <Unknown name={name} choose={choose} />;
  return (
    <button type="button" className="primary" onClick={() => choose(name)}>
      Switch to {name}
    </button>
  );
}

function Unknown({ name, choose }: Props & { name: string }) {
  const start = (event: FormEvent) => {
    event.preventDefault();
    choose(name);
  };
  return (
    <div className={css.unknownUser} role="status">
      <p>No conversations of “{name}” were found. Check the spelling.</p>
      <button type="button" onClick={start}>
        Start a new memory for “{name}”
      </button>
    </div>
  );
}
