// What stands around every page: where one can go, who one is, light or dark.
import { type FormEvent, type ReactNode, useState } from "react";
import { once, Problem } from "../api/client";
import { Dialog } from "../ui/Dialog";
import { Field } from "../ui/Field";
import { Icon, type IconName } from "../ui/Icon";
import { Link } from "../ui/Link";
import { Failure } from "../ui/states";
import { Toasts } from "../ui/toast";
import { useRoute } from "./route";
import css from "./shell.module.css";
import { useTheme } from "./theme";
import { useWho } from "./who";

const PLACES: { at: string; label: string; icon: IconName; href: string }[] = [
  { at: "chat", label: "Chat", icon: "chat", href: "/chat" },
  { at: "why", label: "Why", icon: "why", href: "/why" },
  { at: "agents", label: "Agents", icon: "agents", href: "/agents" },
  { at: "memory", label: "Memory", icon: "memory", href: "/memory/notes" },
  { at: "search", label: "Search", icon: "search", href: "/search" },
  { at: "operations", label: "Operations", icon: "operations", href: "/operations" },
];

export function Shell({ children }: { children: ReactNode }) {
  const { parts } = useRoute();
  const { user, choosable, here } = useWho();
  const [theme, turnTheme] = useTheme();
  const [choosing, setChoosing] = useState(false);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to the page
      </a>
      <header className={css.side}>
        <Link href="/chat" className={css.brand}>
          <img src="/assets/icon.svg" alt="" width="24" height="24" /> <b>retain</b>
        </Link>
        <nav aria-label="Main" className={css.places}>
          {PLACES.map((place) => (
            <Link key={place.at} href={place.href} aria-current={parts[0] === place.at ? "page" : undefined}>
              <Icon name={place.icon} /> <span>{place.label}</span>
            </Link>
          ))}
        </nav>
        <div className={css.me}>
          <button
            type="button"
            className={`plain ${css.who}`}
            onClick={() => setChoosing(true)}
            title="Whose memory this is"
          >
            <Icon name="person" /> <span>{user}</span>
          </button>
          <button
            type="button"
            className="icon"
            onClick={turnTheme}
            aria-label={theme === "dark" ? "Light theme" : "Dark theme"}
          >
            <Icon name={theme === "dark" ? "light" : "dark"} />
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      {choosing && <Whose close={() => setChoosing(false)} choosable={choosable} signedIn={here.needs_key} />}
      <Toasts />
    </div>
  );
}

/** Whose memory is shown, and the way out. */
function Whose({ close, choosable, signedIn }: { close: () => void; choosable: boolean; signedIn: boolean }) {
  const { user, choose, here, refresh } = useWho();
  const [name, setName] = useState(user);
  const [error, setError] = useState<unknown>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) choose(name.trim());
    close();
  };
  const leave = async () => {
    setError(undefined);
    try {
      refresh(await (await once("/api/web/sign-out", { method: "POST" })).json());
    } catch (failed) {
      if (failed instanceof Problem && failed.status === 401) refresh();
      else setError(failed);
    }
  };
  return (
    <Dialog title="Whose memory" close={close}>
      <form onSubmit={submit}>
        <Field
          label="User"
          hint={
            choosable
              ? "Each user has conversations, notes and state of their own. A new name begins with nothing."
              : "The key you signed in with is this user’s alone."
          }
        >
          <input value={name} onChange={(event) => setName(event.target.value)} disabled={!choosable} autoFocus />
        </Field>
        {error !== undefined && <Failure error={error} retry={leave} />}
        <footer className="actions">
          {signedIn && (
            <button type="button" onClick={leave}>
              Sign out
            </button>
          )}
          <button type="submit" className="primary">
            {choosable ? "Use this memory" : "Close"}
          </button>
        </footer>
      </form>
      {signedIn && <p className="quiet">Signing out deletes unsent drafts from this browser.</p>}
      <p className="quiet">
        retain {here.version}
        {here.me && `, as ${here.me.name} of ${here.me.tenant}`} · <a href="/docs">API</a>
      </p>
    </Dialog>
  );
}
