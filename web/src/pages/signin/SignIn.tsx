// Sign in with an API key: it is sent once, and the browser then holds a cookie that scripts cannot read.
import { useEffect } from "react";
import { useApp } from "../../app/context";
import { KeyForm } from "./KeyForm";
import css from "./signin.module.css";

export default function SignIn() {
  const { server } = useApp();
  useEffect(() => {
    document.title = "Sign in · memorist";
  }, []);
  return (
    <main className={css.signin}>
      <img src="/assets/icon.svg" alt="" width="48" height="48" />
      <h1>Sign in to memorist</h1>
      <KeyForm />
      <p className="quiet">memorist {server.version}</p>
    </main>
  );
}
