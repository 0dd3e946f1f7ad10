// The way in, where the server needs a key: it is sent once, and the browser keeps a cookie that no script can read.
import { type FormEvent, useState } from "react";
import { fetched, told } from "../../api/client";
import { useWho } from "../../app/who";
import { Field } from "../../ui/Field";
import "./signin.css";

export default function SignIn() {
  const { refresh } = useWho();
  const [key, setKey] = useState("");
  const [remember, setRemember] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const body = JSON.stringify({ key: key.trim(), remember });
      const headers = { "Content-Type": "application/json" };
      refresh(await (await fetched("/api/web/sign-in", { method: "POST", body, headers })).json());
    } catch (error) {
      setWrong(told(error));
      setBusy(false);
    }
  };
  return (
    <main className="signin">
      <img src="/assets/icon.svg" alt="" width="48" height="48" />
      <h1>Sign in to retain</h1>
      <form onSubmit={submit}>
        <Field
          label="API key"
          wrong={wrong}
          hint="It begins with rtn_. An admin makes one with: retain keys create NAME --permissions read,write"
        >
          <input
            type="password"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            autoComplete="current-password"
            autoFocus
            required
          />
        </Field>
        <label className="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.target.checked)} />
          Stay signed in on this device for 30 days
        </label>
        <button type="submit" className="primary" disabled={busy || !key.trim()}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
