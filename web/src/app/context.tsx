// The current principal and server, requested once before anything else is shown.
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";
import { fetchOnce, type Problem, signIn } from "../api/client";
import { Failure, Loading } from "../ui/states";
import { clearStored, readStored, store } from "./storage";

export type Tool = { name: string; description: string };
export type Permission = "read" | "write" | "delete" | "admin";
/** Information about the server and the current principal. */
export type ServerInfo = {
  version: string;
  needs_key: boolean;
  signed_in: boolean;
  csrf: string | null;
  me: { tenant: string; permissions: Permission[]; user: string | null; agent: string | null; name: string } | null;
  user: string | null;
  model: string | null;
  tools: Tool[];
};
export type AppContext = {
  server: ServerInfo;
  /** The user whose memory is shown and who writes messages. */
  user: string;
  /** True if another user can be chosen: not with a key bound to one user. */
  choosable: boolean;
  /** Show another user's memory; null for the user that the server suggests. */
  choose: (user: string | null) => void;
  may: (permission: Permission) => boolean;
  /** Signed out while the app was open: the sign-in dialog is shown, or was postponed. */
  away: "asking" | "later" | null;
  /** Postpone signing in again, or resume it. */
  postpone: (later: boolean) => void;
  /** Request the server information again, or use this response. */
  refresh: (server?: ServerInfo) => void;
};

const Context = createContext<AppContext | null>(null);
const USER = "memorist_user";

/** The current principal; only inside `<AppProvider>`. */
export function useApp(): AppContext {
  const app = useContext(Context);
  if (!app) throw new Error("useApp outside of AppProvider");
  return app;
}

/** The identity of the principal; when it changes, all pages are mounted again. */
export const identity = ({ me }: ServerInfo): string => JSON.stringify(me && [me.tenant, me.user, me.agent]);

type Latest = {
  server?: ServerInfo;
  away: AppContext["away"];
  waiting: ((again: boolean) => void)[];
  onSignedOut: (problem: Problem) => Promise<boolean>;
};

export function AppProvider({ children }: { children: ReactNode }) {
  const [server, setServer] = useState<ServerInfo>();
  const [error, setError] = useState<unknown>();
  const [chosenUser, setChosenUser] = useState(readStored(USER));
  const [away, setAway] = useState<AppContext["away"]>(null);
  // Current values for calls outside of a render: the last principal, and the calls that wait for a new sign-in.
  const latest = useRef<Latest>({ away: null, waiting: [], onSignedOut: async () => false });
  const setSignInState = useCallback((next: AppContext["away"], again = false) => {
    latest.current.away = next;
    setAway(next);
    if (next === "asking") return;
    for (const resume of latest.current.waiting.splice(0)) resume(again);
  }, []);
  // `applyServerInfo` passes `onSignedOut` to the client, which calls it back; both go through `latest` to avoid a cycle.
  const applyServerInfo = useCallback(
    (next: ServerInfo): boolean => {
      const current = latest.current.server;
      const same = !!current?.signed_in && next.signed_in && identity(current) === identity(next);
      if (current?.signed_in && identity(current) !== identity(next)) return startOver();
      latest.current.server = next;
      signIn(next.csrf, latest.current.onSignedOut);
      setServer(next);
      setError(undefined);
      setSignInState(null, same);
      return same;
    },
    [setSignInState],
  );
  latest.current.onSignedOut = async (problem: Problem): Promise<boolean> => {
    if (problem.status === 403) return applyServerInfo(await fetchServerInfo()); // another tab signed in, so the CSRF token is outdated
    if (!latest.current.server?.signed_in || latest.current.away === "later") return false;
    setSignInState("asking");
    return new Promise((done) => latest.current.waiting.push(done));
  };
  const refresh = useCallback(
    (info?: ServerInfo) => {
      if (info) applyServerInfo(info);
      else fetchServerInfo().then(applyServerInfo, setError);
    },
    [applyServerInfo],
  );
  useEffect(() => refresh(), [refresh]);
  useEffect(() => {
    if (!away) return;
    const check = () => void fetchServerInfo().then((next) => next.signed_in && applyServerInfo(next), Boolean); // the user may have signed in in another tab
    window.addEventListener("focus", check);
    return () => window.removeEventListener("focus", check);
  }, [away, applyServerInfo]);
  const app = useMemo<AppContext | undefined>(() => {
    if (!server) return undefined;
    const bound = server.me?.user ?? null;
    return {
      server,
      user: bound ?? chosenUser ?? server.user ?? "default",
      choosable: bound === null,
      choose: (user) => {
        store(USER, user);
        setChosenUser(user);
      },
      may: (permission) => server.me?.permissions.includes(permission) ?? false,
      away,
      postpone: (later) => setSignInState(later ? "later" : "asking"),
      refresh,
    };
  }, [server, chosenUser, away, setSignInState, refresh]);
  if (app) return <Context value={app}>{children}</Context>;
  if (error) return <Failure error={error} retry={() => refresh()} />;
  return <Loading />;
}

/** Clear this browser's data and reload: the principal has changed and must not see the data of the previous one. */
function startOver(): false {
  clearStored();
  location.assign("/");
  return false;
}

/** Request the information about the server and the current principal. */
const fetchServerInfo = async (): Promise<ServerInfo> => (await fetchOnce("/api/web")).json();
