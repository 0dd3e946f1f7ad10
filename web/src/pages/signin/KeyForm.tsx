// The form for an API key: on the sign-in page, or over a page whose sign-in has expired.
import { type FormEvent, useState } from "react";
import { errorMessage, fetchOnce, Problem } from "../../api/client";
import { type ServerInfo, useApp } from "../../app/context";
import { Field } from "../../ui/Field";
import { useNow } from "../../ui/time";

const UNKNOWN = "Invalid key. Check for typos; it may also have expired or been revoked.";
const RATE_LIMITED = "Too many attempts. Wait a moment, then try again.";

/** Sign in; the key is sent once and not stored in this browser. */
export async function signInWith(key: string, remember = false): Promise<ServerInfo> {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ key, remember });
  return (await fetchOnce("/api/web/sign-in", { method: "POST", body, headers })).json();
}

function messageFor(error: unknown): string {
  if (error instanceof Problem && error.status === 401) return UNKNOWN;
  if (error instanceof Problem && error.status === 429) return RATE_LIMITED;
  return errorMessage(error);
}

export function KeyForm() {
  const { refresh } = useApp();
  const [key, setKey] = useState("");
  const [remember, setRemember] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [from, setFrom] = useState(0);
  const wait = Math.ceil((from - useNow(0.5)) / 1000);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      refresh(await signInWith(key.trim(), remember));
    } catch (error) {
      if (error instanceof Problem && error.status === 429) setFrom(Date.now() + Math.max(error.retryAfter, 1) * 1000);
      setError(messageFor(error));
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit}>
      <Field
        label="API key"
        error={error}
        hint="It begins with mst_. The server’s administrator can create one: memorist keys add NAME --permissions read,write"
      >
        <input
          type="password"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          autoComplete="current-password"
          spellCheck={false}
          autoFocus
          required
        />
      </Field>
      <label className="check">
        <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
        Stay signed in on this device for 30 days
      </label>
      <button type="submit" className="primary" disabled={busy || wait > 0 || !key.trim()}>
        {wait > 0 ? `Try again in ${wait} s` : busy ? "Signing in…" : "Sign in"}
      </button>
    </form>
  );
}
