// Which page an address is. Pages are loaded when they are first gone to.
import { Component, lazy, type ReactNode, Suspense, useEffect, useRef } from "react";
import { Link } from "../ui/Link";
import { Empty, Failure, Loading } from "../ui/states";
import { go, useRoute } from "./route";
import { Shell } from "./Shell";
import { identity, Known, useWho } from "./who";

const PAGES = {
  chat: lazy(() => import("../pages/chat/Chat")),
  why: lazy(() => import("../pages/why/Why")),
  agents: lazy(() => import("../pages/agents/Agents")),
  memory: lazy(() => import("../pages/memory/Memory")),
  search: lazy(() => import("../pages/search/Search")),
  operations: lazy(() => import("../pages/operations/Operations")),
};
const SignIn = lazy(() => import("../pages/signin/SignIn"));
const SignInAgain = lazy(() => import("../pages/signin/SignInAgain"));

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
  return (
    <Empty title="There is no such page">
      <p>
        <Link href="/chat">Go to the chat</Link>
      </p>
    </Empty>
  );
}

/** A mistake in one page is said there, and the others go on. */
class Mishap extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};
  static getDerivedStateFromError = (error: unknown) => ({ error });
  override render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={this.state.error} retry={() => location.reload()} />;
  }
}
