// Create an API key. Its text is shown once, only in this dialog.
import { type FormEvent, useState } from "react";
import { errorMessage, fetchSignedIn } from "../../api/client";
import { type Permission, type ServerInfo, useApp } from "../../app/context";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import { signInWith } from "../signin/KeyForm";
import css from "./operations.module.css";
import { ShownOnce } from "./ShownOnce";

const PERMISSIONS: [Permission, string][] = [
  ["read", "Read: view, search, request a context"],
  ["write", "Write: chat, add, change"],
  ["delete", "Delete: remove permanently"],
  ["admin", "Admin: keys, the audit log, exports of users"],
];
const ENDS: [string, string][] = [
  ["", "Never"],
  ["7", "In 7 days"],
  ["30", "In 30 days"],
  ["90", "In 90 days"],
  ["365", "In a year"],
  ["own", "On a day of your choice"],
];

export function NewKey({ close, onCreated }: { close: () => void; onCreated: () => void }) {
  const { server, may, refresh } = useApp();
  const [first] = useState(!server.needs_key);
  const [fields, setFields] = useState({ name: "", user: "", agent: "", ends: "", day: "" });
  const [permissions, setPermissions] = useState<Permission[]>(
    first ? PERMISSIONS.map(([name]) => name) : ["read", "write"],
  );
  const [text, setText] = useState("");
  const [visit, setVisit] = useState<ServerInfo>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const field = (name: keyof typeof fields) => ({
    value: fields[name],
    onChange: (event: { target: { value: string } }) => setFields({ ...fields, [name]: event.target.value }),
  });
  const wouldLockOut = first && !(permissions.includes("admin") && !fields.user && !fields.agent);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const body = { ...bound(fields), name: fields.name.trim(), permissions, expires_at: until(fields) };
      const headers = { "Content-Type": "application/json" };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const { key } = await (await fetchSignedIn("/api/keys", init)).json(); // without retries, which would create a second key
      setText(key);
      if (first) setVisit(await signInWith(key));
      else onCreated();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const requestClose = () => {
    close();
    if (!first) return;
    refresh(visit); // only now: a change of principal reloads the page, and the key cannot be shown again
    if (visit) onCreated(); // only with a session: listing keys without one would open the sign-in dialog over this one
  };
  if (text) return <CreatedKey text={text} first={first} busy={busy} error={error} close={requestClose} />;
  return (
    <Dialog title={first ? "The first key" : "New key"} close={close} dirty={Object.values(fields).some(Boolean)}>
      {first && (
        <p className={css.callout}>
          <b>From then on, everyone needs a key</b>, also on this machine: every program, and every browser. This one
          will be signed in with the new key at once.
        </p>
      )}
      <form onSubmit={submit}>
        <Field label="Name" hint="The purpose of the key, so that you can tell later whether it is still needed.">
          <input required maxLength={200} autoFocus {...field("name")} />
        </Field>
        <fieldset>
          <legend>Permissions</legend>
          {PERMISSIONS.map(([name, label]) => (
            <label key={name} className="check">
              <input
                type="checkbox"
                checked={permissions.includes(name)}
                disabled={!may(name)}
                onChange={(event) =>
                  setPermissions((previous) =>
                    event.target.checked ? [...previous, name] : previous.filter((other) => other !== name),
                  )
                }
              />
              {label}
            </label>
          ))}
        </fieldset>
        <div className={css.two}>
          <Field label="Only for the user" hint="Empty: every user.">
            <input {...field("user")} />
          </Field>
          <Field label="Only for the agent" hint="Empty: every agent.">
            <input {...field("agent")} />
          </Field>
        </div>
        <div className={css.two}>
          <Field label="Expires">
            <select {...field("ends")}>
              {ENDS.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          </Field>
          {fields.ends === "own" && (
            <Field label="Last day">
              <input type="date" required {...field("day")} />
            </Field>
          )}
        </div>
        {wouldLockOut && (
          <p className={css.callout} role="status">
            This key could not manage keys; that requires admin without a user or agent restriction.
          </p>
        )}
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !permissions.length || !fields.name.trim()}>
            {first ? "Create and require keys" : "Create the key"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

type CreatedProps = { text: string; first: boolean; busy: boolean; error: unknown; close: () => void };

function CreatedKey({ text, first, busy, error, close }: CreatedProps) {
  return (
    <ShownOnce title="Your new key" label="API key" text={text} busy={busy} close={close}>
      {first && busy && <p>This browser is being signed in with it …</p>}
      {first && !busy && !error && (
        <p>This browser is signed in with it. All other clients need this key or another one.</p>
      )}
      {error ? (
        <Failure
          error={
            new Error(`The key was created, but this browser is not signed in: ${errorMessage(error)} Sign in with it.`)
          }
        />
      ) : null}
    </ShownOnce>
  );
}

const bound = ({ user, agent }: { user: string; agent: string }) => ({
  user: user.trim() || undefined,
  agent: agent.trim() || undefined,
});

/** The expiry of a key; a chosen day is included. */
function until({ ends, day }: { ends: string; day: string }): string | undefined {
  if (ends === "own") return new Date(`${day}T23:59:59`).toISOString();
  return ends ? new Date(Date.now() + Number(ends) * 86_400_000).toISOString() : undefined;
}
