// The frame around every page: navigation, the current user, the theme.
import { type ReactNode, useState } from "react";
import { fetchOnce, Problem } from "../api/client";
import { Dialog } from "../ui/Dialog";
import { Icon, type IconName } from "../ui/Icon";
import { Link } from "../ui/Link";
import { Failure } from "../ui/states";
import { Toasts } from "../ui/toast";
import { useApp } from "./context";
import { go, to, useRoute } from "./route";
import css from "./shell.module.css";
import { useTheme } from "./theme";
import { UserPicker } from "./UserPicker";

const SECTIONS: { at: string; label: string; icon: IconName; href: string }[] = [
  { at: "chat", label: "Chat", icon: "chat", href: "/chat" },
  { at: "why", label: "Why", icon: "why", href: "/why" },
  { at: "agents", label: "Agents", icon: "agents", href: "/agents" },
  { at: "memory", label: "Memory", icon: "memory", href: "/memory/facts" },
  { at: "search", label: "Search", icon: "search", href: "/search" },
  { at: "users", label: "Users", icon: "person", href: "/users" },
  { at: "operations", label: "Operations", icon: "operations", href: "/operations" },
];

export function Shell({ children }: { children: ReactNode }) {
  const { parts } = useRoute();
  const { user, choosable, server } = useApp();
  const [theme, turnTheme] = useTheme();
  const [choosing, setChoosing] = useState(false);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to the page
      </a>
      <header className={css.side}>
        <Link href="/chat" className={css.brand}>
          <img src="/assets/icon.svg" alt="" width="24" height="24" /> <b>memorist</b>
        </Link>
        <nav aria-label="Main" className={css.places}>
          {SECTIONS.map((section) => (
            <Link key={section.at} href={section.href} aria-current={parts[0] === section.at ? "page" : undefined}>
              <Icon name={section.icon} /> <span>{section.label}</span>
            </Link>
          ))}
        </nav>
        <div className={css.me}>
          <button type="button" className={`plain ${css.who}`} onClick={() => setChoosing(true)} title="Switch user">
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
      {choosing && <Account close={() => setChoosing(false)} choosable={choosable} signedIn={server.needs_key} />}
      <Toasts />
    </div>
  );
}

/** The current user, a form to switch to another user, and a button to sign out. */
function Account({ close, choosable, signedIn }: { close: () => void; choosable: boolean; signedIn: boolean }) {
  const { user, choose, server, refresh } = useApp();
  const { parts } = useRoute();
  const [error, setError] = useState<unknown>();
  const signOut = async () => {
    setError(undefined);
    try {
      refresh(await (await fetchOnce("/api/web/sign-out", { method: "POST" })).json());
    } catch (failed) {
      if (failed instanceof Problem && failed.status === 401) refresh();
      else setError(failed);
    }
  };
  const pick = (name: string) => {
    choose(name);
    close();
    if (parts[0] === "chat" || parts[0] === "why") go(`/${parts[0]}`); // leave the previous user's conversation
  };
  return (
    <Dialog title="User" close={close}>
      <p>
        You see the memory of <b>{user}</b>.{" "}
        <Link href={to(["users", user])} onClick={close}>
          What is stored about {user}
        </Link>
      </p>
      {choosable ? (
        <UserPicker choose={pick} />
      ) : (
        <p className="quiet">The key you signed in with gives access to this user only.</p>
      )}
      {error !== undefined && <Failure error={error} retry={signOut} />}
      <footer className="actions">
        {signedIn && (
          <button type="button" onClick={signOut}>
            Sign out
          </button>
        )}
        <button type="button" onClick={close}>
          Close
        </button>
      </footer>
      {signedIn && <p className="quiet">Signing out deletes unsent drafts from this browser.</p>}
      <p className="quiet">
        memorist {server.version}
        {server.me && `, as ${server.me.name} of ${server.me.tenant}`} · <a href="/docs">API reference</a>
      </p>
    </Dialog>
  );
}
