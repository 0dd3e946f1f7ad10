// Map addresses to pages. Each page is loaded on first use.
import { Component, type ComponentType, lazy, type ReactNode, Suspense, useEffect, useRef } from "react";
import { told, unreachable } from "../api/client";
import { Link } from "../ui/Link";
import { Failure, Loading } from "../ui/states";
import { useTitle } from "../ui/title";
import { say } from "../ui/toast";
import { go, useRoute } from "./route";
import { Shell } from "./Shell";
import { identity, Known, useWho } from "./who";

/** A page that is loaded when it is first gone to. */
const later = (load: () => Promise<{ default: ComponentType }>) =>
  lazy(() =>
    load().catch(() => {
      throw new Error(
        "This page could not be loaded. The server does not answer, or has a newer version of it by now.",
      );
    }),
  );

const PAGES = {
  chat: later(() => import("../pages/chat/Chat")),
  why: later(() => import("../pages/why/Why")),
  agents: later(() => import("../pages/agents/Agents")),
  memory: later(() => import("../pages/memory/Memory")),
  search: later(() => import("../pages/search/Search")),
  users: later(() => import("../pages/users/Users")),
  setup: later(() => import("../pages/setup/Setup")),
  operations: later(() => import("../pages/operations/Operations")),
};
const SignIn = later(() => import("../pages/signin/SignIn"));
const SignInAgain = later(() => import("../pages/signin/SignInAgain"));

export function App() {
  return (
    <Known>
      <Suspense fallback={<Loading />}>
        <Here />
      </Suspense>
    </Known>
  );
}

function Here() {
  const { here, away } = useWho();
  const { parts, path } = useRoute();
  const before = useRef<string>(undefined);
  const home = parts.length === 0 || (here.signed_in && parts[0] === "sign-in");
  useEffect(() => {
    if (home) go("/chat", true);
  }, [home]);
  useEffect(() => {
    // The page that had the focus is gone: whoever goes by keyboard goes on at the new one.
    const lost = before.current !== undefined && document.activeElement === document.body;
    if (lost && before.current !== path) document.getElementById("main")?.focus({ preventScroll: true });
    before.current = path;
  }, [path]);
  if (!here.signed_in) return <SignIn />;
  const Page = PAGES[(parts[0] ?? "chat") as keyof typeof PAGES];
  return (
    <Shell key={identity(here)}>
      <Mishap key={parts[0] === "chat" ? "chat" : path /* a chat stays while one goes from talk to talk */}>
        <Suspense fallback={<Loading />}>{home ? null : Page ? <Page /> : <Nowhere />}</Suspense>
      </Mishap>
      {away && (
        <Suspense fallback={null}>
          <SignInAgain />
        </Suspense>
      )}
    </Shell>
  );
}

function Nowhere() {
  useTitle("Page not found");
  return (
    <div className="page">
      <header>
        <h1>Page not found</h1>
      </header>
      <p>
        There is no page at this address. <Link href="/chat">Go to the chat</Link>
      </p>
    </div>
  );
}

/** Load the page anew, once there is somebody who has it: a browser's own page of failure has no way back to ours. */
const again = () =>
  fetch("/healthz").then(
    () => location.reload(),
    () => say(told(unreachable())),
  );

/** A mistake in one page is said there, and the others go on. */
class Mishap extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};
  static getDerivedStateFromError = (error: unknown) => ({ error });
  override render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={this.state.error} retry={again} />;
  }
}
