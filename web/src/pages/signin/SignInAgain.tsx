// Sign in again over the current page after the sign-in expired; the page stays, and pending requests continue.
import { useApp } from "../../app/context";
import { Dialog } from "../../ui/Dialog";
import { KeyForm } from "./KeyForm";
import css from "./signin.module.css";

export default function SignInAgain() {
  const { away, postpone } = useApp();
  if (away === "asking") {
    return (
      <Dialog title="Sign in again" close={() => postpone(true)}>
        <p>You are signed out: your key or session has expired. Your page and unsaved text are still here.</p>
        <KeyForm />
      </Dialog>
    );
  }
  return (
    <aside className={css.signedOut} aria-label="Signed out">
      <p role="status">You are signed out. Nothing is saved until you sign in again.</p>
      <button type="button" className="primary" onClick={() => postpone(false)}>
        Sign in
      </button>
    </aside>
  );
}
