// Map addresses to pages. Each page is loaded on first use.
import { Component, type ComponentType, lazy, type ReactNode, Suspense, useEffect, useRef } from "react";
import { errorMessage, unreachable } from "../api/client";
import { Link } from "../ui/Link";
import { Failure, Loading } from "../ui/states";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";
import { AppProvider, identity, useApp } from "./context";
import { go, useRoute } from "./route";
import { Shell } from "./Shell";

/** A page component that is loaded on first use. */
const lazyPage = (load: () => Promise<{ default: ComponentType }>) =>
  lazy(() =>
    load().catch(() => {
      throw new Error(
        "This page could not be loaded. The server does not answer, or it has been updated. Reload the page.",
      );
    }),
  );

const PAGES = {
  chat: lazyPage(() => import("../pages/chat/Chat")),
  why: lazyPage(() => import("../pages/why/Why")),
  agents: lazyPage(() => import("../pages/agents/Agents")),
  memory: lazyPage(() => import("../pages/memory/Memory")),
  search: lazyPage(() => import("../pages/search/Search")),
  users: lazyPage(() => import("../pages/users/Users")),
  setup: lazyPage(() => import("../pages/setup/Setup")),
  operations: lazyPage(() => import("../pages/operations/Operations")),
};
const SignIn = lazyPage(() => import("../pages/signin/SignIn"));
const SignInAgain = lazyPage(() => import("../pages/signin/SignInAgain"));

export function App() {
  return (
    <AppProvider>
      <Suspense fallback={<Loading />}>
        <CurrentPage />
      </Suspense>
    </AppProvider>
  );
}

function CurrentPage() {
  const { server, away } = useApp();
  const { parts, path } = useRoute();
  const previousPath = useRef<string>(undefined);
  const home = parts.length === 0 || (server.signed_in && parts[0] === "sign-in");
  useEffect(() => {
    if (home) go("/chat", true);
  }, [home]);
  useEffect(() => {
    // The focused page was removed: focus the new page for keyboard users.
    const focusLost = previousPath.current !== undefined && document.activeElement === document.body;
    if (focusLost && previousPath.current !== path) document.getElementById("main")?.focus({ preventScroll: true });
    previousPath.current = path;
  }, [path]);
  if (!server.signed_in) return <SignIn />;
  const Page = PAGES[(parts[0] ?? "chat") as keyof typeof PAGES];
  return (
    <Shell key={identity(server)}>
      <ErrorBoundary key={parts[0] === "chat" ? "chat" : path /* the chat page stays mounted between conversations */}>
        <Suspense fallback={<Loading />}>{home ? null : Page ? <Page /> : <PageNotFound />}</Suspense>
      </ErrorBoundary>
      {away && (
        <Suspense fallback={null}>
          <SignInAgain />
        </Suspense>
      )}
    </Shell>
  );
}

function PageNotFound() {
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

/** Reload the page, but only if the server answers: the browser's own error page has no link back. */
const reload = () =>
  fetch("/healthz").then(
    () => location.reload(),
    () => notify(errorMessage(unreachable())),
  );

/** Show an error of one page in its place; the rest of the app keeps working. */
class ErrorBoundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};
  static getDerivedStateFromError = (error: unknown) => ({ error });
  override render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={this.state.error} retry={reload} />;
  }
}
