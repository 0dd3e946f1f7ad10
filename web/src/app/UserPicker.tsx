// Choose a user: search among users with data. An unknown name is used only after a confirmation, so that a
// typo does not start an empty memory.
import { type FormEvent, useState } from "react";
import { get } from "../api/client";
import { useLoad } from "../api/load";
import { useSettled } from "../api/settled";
import { Field } from "../ui/Field";
import { Failure, Loading } from "../ui/states";
import { count, Time } from "../ui/time";
import css from "./shell.module.css";
import { useWho } from "./who";

const SHOWN = 8;

type Shown = { choose: (user: string) => void };

export function UserPicker({ choose }: Shown) {
  const { may } = useWho();
  const [typed, setTyped] = useState("");
  const name = typed.trim();
  const settled = useSettled(name, 200);
  return (
    <form className={css.userPicker} onSubmit={(event) => event.preventDefault()}>
      <Field label="Find a user">
        <input type="text" autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} />
      </Field>
      {may("admin") ? (
        <Matches search={settled} pending={settled !== name} choose={choose} />
      ) : (
        settled && <Unlisted key={settled} name={settled} choose={choose} />
      )}
    </form>
  );
}

/** The users whose names contain the text. */
function Matches({ search, pending, choose }: Shown & { search: string; pending: boolean }) {
  const { user } = useWho();
  const users = useLoad((signal) => get("/api/users", { query: { search, limit: SHOWN }, signal }), [search]);
  if (users.error) return <Failure error={users.error} retry={users.reload} />;
  if (!users.data) return <Loading what="Loading users" />;
  const { data, next } = users.data;
  const known = data.some((one) => one.user === search);
  const current = !pending && !users.loading;
  return (
    <>
      <ul className={css.userList} aria-label="Users" aria-busy={!current}>
        {data.map((one) => (
          <li key={one.user}>
            <button
              type="button"
              className="plain"
              aria-current={one.user === user ? "true" : undefined}
              onClick={() => choose(one.user)}
            >
              <b>{one.user}</b>
              <span className="quiet">
                {count(one.conversations)} conversations, {count(one.memories)} memories ·{" "}
                <Time at={one.last_active_at} />
              </span>
            </button>
          </li>
        ))}
      </ul>
      {next && <p className="quiet">There are more. Type part of the name.</p>}
      {current && search && !known && <Unknown name={search} choose={choose} />}
      {current && !search && data.length === 0 && <p className="quiet">Nobody has data yet.</p>}
    </>
  );
}

/** A name, for a key that may not list the users. */
function Unlisted({ name, choose }: Shown & { name: string }) {
  const found = useLoad(
    (signal) => get("/api/chat/sessions", { query: { user: name, spoken: true, limit: 1 }, signal }),
    [name],
  );
  if (found.error) return <Failure error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="Looking for this user" />;
  if (found.data.data.length === 0) return <Unknown name={name} choose={choose} />;
  return (
    <button type="button" className="primary" onClick={() => choose(name)}>
      Switch to {name}
    </button>
  );
}

function Unknown({ name, choose }: Shown & { name: string }) {
  const start = (event: FormEvent) => {
    event.preventDefault();
    choose(name);
  };
  return (
    <div className={css.unknownUser} role="status">
      <p>No conversation of “{name}” was found. Check the spelling.</p>
      <button type="button" onClick={start}>
        Start a new memory for “{name}”
      </button>
    </div>
  );
}
