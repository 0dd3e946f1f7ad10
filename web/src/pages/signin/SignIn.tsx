// Sign in with an API key: it is sent once, and the browser then holds a cookie that scripts cannot read.
import { useEffect } from "react";
import { useWho } from "../../app/who";
import { KeyForm } from "./KeyForm";
import css from "./signin.module.css";

export default function SignIn() {
  const { here } = useWho();
  useEffect(() => {
    document.title = "Sign in · retain";
  }, []);
  return (
    <main className={css.signin}>
      <img src="/assets/icon.svg" alt="" width="48" height="48" />
      <h1>Sign in to retain</h1>
      <KeyForm />
      <p className="quiet">retain {here.version}</p>
    </main>
  );
}
