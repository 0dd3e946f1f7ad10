// Set a state key: its value as JSON, checked while typing, and its lifetime. Overwriting another version needs a confirmation.
import { type FormEvent, useState } from "react";
import { get, Problem, put } from "../../../api/client";
import type { Item } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Dialog } from "../../../ui/Dialog";
import { Field } from "../../../ui/Field";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";
import css from "../memory.module.css";
import { LASTS, type Lifetime, parse, pretty, timeLeft, ttl } from "./value";

type Props = { item: Item | undefined; area: string; skew: number; saved: (item: Item) => void; close: () => void };

export function StateForm({ item, area, skew, saved, close }: Props) {
  const { user } = useApp();
  const [key, setKey] = useState(item?.key ?? "");
  const [text, setText] = useState(item ? pretty(item.value) : "");
  const [lasts, setLasts] = useState<Lifetime>(item?.expires_at ? "kept" : "never");
  const [ownSeconds, setOwnSeconds] = useState("");
  const [version, setVersion] = useState(item?.version ?? 0);
  const [theirs, setTheirs] = useState<Item>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const rest = item?.expires_at ? (Date.parse(item.expires_at) - Date.now() - skew) / 1000 : 0;
  const { value, parseError } = parse(text);
  const seconds = ttl(lasts, ownSeconds, rest);
  const dirty = key !== (item?.key ?? "") || text !== (item ? pretty(item.value) : "");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (parseError || !key.trim() || seconds === undefined || busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const body = { value, area, ttl: seconds, if_version: version };
      saved(await put("/api/state/{key}", { path: { key }, query: { user }, body }));
      notify(`${key} is set.`);
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
      if (failure instanceof Problem && (failure.status === 409 || failure.status === 412)) await showTheirs();
    }
  };
  /** Load the current value after somebody else changed it. */
  const showTheirs = async () => {
    try {
      const stored = await get("/api/state/{key}", { path: { key }, query: { user, area } });
      setTheirs(stored);
      setVersion(stored.version);
      saved(stored);
    } catch (failure) {
      if (!(failure instanceof Problem && failure.status === 404)) return setError(failure);
      setVersion(0); // it was removed: saving creates it again
      setTheirs(undefined);
    }
  };
  return (
    <Dialog title={item ? `Edit ${item.key}` : "Add a value"} close={close} dirty={dirty}>
      <form onSubmit={submit}>
        {!item && (
          <Field label="Key" error={tried && !key.trim() ? "Give it a name." : null}>
            <input value={key} onChange={(event) => setKey(event.target.value)} autoFocus />
          </Field>
        )}
        <Field
          label="Value, as JSON"
          error={text || tried ? parseError : null}
          hint={'Such as "dark", 12, true or {"a": [1, 2]}.'}
        >
          <textarea
            className={css.mono}
            rows={8}
            value={text}
            spellCheck={false}
            readOnly={busy}
            autoFocus={!!item}
            onChange={(event) => setText(event.target.value)}
          />
        </Field>
        <Field label="Expires">
          <select value={lasts} onChange={(event) => setLasts(event.target.value as Lifetime)}>
            {item?.expires_at && <option value="kept">Unchanged, in {timeLeft(rest)}</option>}
            {Object.entries(LASTS).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        {lasts === "own" && (
          <Field label="Seconds" error={(ownSeconds || tried) && seconds === undefined ? "A number above 0." : null}>
            <input inputMode="decimal" value={ownSeconds} onChange={(event) => setOwnSeconds(event.target.value)} />
          </Field>
        )}
        {error ? (
          <Failure error={error}>
            {theirs && (
              <>
                <p>The current value, version {theirs.version}:</p>
                <pre>{pretty(theirs.value)}</pre>
              </>
            )}
          </Failure>
        ) : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy}>
            {theirs ? "Overwrite with mine" : "Save"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
