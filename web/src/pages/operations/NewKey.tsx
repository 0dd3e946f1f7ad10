// Create an API key. Its text is shown once, only in this dialog.
import { type FormEvent, useState } from "react";
import { fetched, told } from "../../api/client";
import { type Here, type Permission, useWho } from "../../app/who";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import { signInWith } from "../signin/KeyForm";
import css from "./operations.module.css";

const PERMISSIONS: [Permission, string][] = [
  ["read", "Read: see, search, ask for a context"],
  ["write", "Write: chat, add, change"],
  ["delete", "Delete: remove for good"],
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

export function NewKey({ close, made }: { close: () => void; made: () => void }) {
  const { here, may, refresh } = useWho();
  const [first] = useState(!here.needs_key);
  const [said, setSaid] = useState({ name: "", user: "", agent: "", ends: "", day: "" });
  const [permissions, setPermissions] = useState<Permission[]>(
    first ? PERMISSIONS.map(([name]) => name) : ["read", "write"],
  );
  const [text, setText] = useState("");
  const [visit, setVisit] = useState<Here>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const field = (name: keyof typeof said) => ({
    value: said[name],
    onChange: (event: { target: { value: string } }) => setSaid({ ...said, [name]: event.target.value }),
  });
  const locksOut = first && !(permissions.includes("admin") && !said.user && !said.agent);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const body = { ...bound(said), name: said.name.trim(), permissions, expires_at: until(said) };
      const headers = { "Content-Type": "application/json" };
      const how = { method: "POST", headers, body: JSON.stringify(body) };
      const { key } = await (await fetched("/api/keys", how)).json(); // not patiently: asked twice, it would make two
      setText(key);
      if (first) setVisit(await signInWith(key));
      else made();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const leave = () => {
    close();
    if (!first) return;
    refresh(visit); // not before: for somebody else the page begins anew, and nobody could show the key again
    if (visit) made(); // nor this: who is not signed in yet, or may not see the keys, would be asked to sign in over it
  };
  if (text) return <Shown text={text} first={first} busy={busy} error={error} close={leave} />;
  return (
    <Dialog title={first ? "The first key" : "New key"} close={close} dirty={Object.values(said).some(Boolean)}>
      {first && (
        <p className={css.callout}>
          <b>From then on, everyone needs a key</b>, also on this machine: every program, and every browser. This one
          will be signed in with the new key at once.
        </p>
      )}
      <form onSubmit={submit}>
        <Field label="Name" hint="What it is for, so that you know later whether it is still needed.">
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
                  setPermissions((before) =>
                    event.target.checked ? [...before, name] : before.filter((other) => other !== name),
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
          {said.ends === "own" && (
            <Field label="Last day">
              <input type="date" required {...field("day")} />
            </Field>
          )}
        </div>
        {locksOut && (
          <p className={css.callout} role="status">
            This key could not manage keys; that requires admin without a user or agent restriction.
          </p>
        )}
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !permissions.length || !said.name.trim()}>
            {first ? "Create and require keys" : "Create the key"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The text of a key that was just made: to be copied now, because nobody can show it again. */
function Shown(props: { text: string; first: boolean; busy: boolean; error: unknown; close: () => void }) {
  const { text, first, busy, error, close } = props;
  const [copied, setCopied] = useState<boolean | null>(null);
  const [warned, setWarned] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  const leave = () => (copied || warned ? busy || close() : setWarned(true));
  return (
    <Dialog title="Your new key" close={leave}>
      <p className={css.callout}>Copy it now; it is shown only once.</p>
      <Field label="API key">
        <input readOnly value={text} onFocus={(event) => event.target.select()} className={css.mono} autoFocus />
      </Field>
      <p role="status">
        {copied && "Copied."}
        {copied === false && "Could not copy automatically; select and copy it."}
        {warned && !copied && "You have not copied it here yet. If you have it, close this; it cannot be shown again."}
      </p>
      {first && busy && <p>This browser is being signed in with it …</p>}
      {first && !busy && !error && (
        <p>This browser is signed in with it. All others need this key or one of their own.</p>
      )}
      {error ? (
        <Failure
          error={new Error(`The key was made, but this browser is not signed in: ${told(error)} Sign in with it.`)}
        />
      ) : null}
      <footer className="actions">
        <button type="button" className="primary" onClick={copy}>
          Copy
        </button>
        <button type="button" onClick={leave} disabled={busy}>
          {warned ? "Close" : "Done"}
        </button>
      </footer>
    </Dialog>
  );
}

const bound = ({ user, agent }: { user: string; agent: string }) => ({
  user: user.trim() || undefined,
  agent: agent.trim() || undefined,
});

/** When a key ends; on a day means with the end of it. */
function until({ ends, day }: { ends: string; day: string }): string | undefined {
  if (ends === "own") return new Date(`${day}T23:59:59`).toISOString();
  return ends ? new Date(Date.now() + Number(ends) * 86_400_000).toISOString() : undefined;
}
