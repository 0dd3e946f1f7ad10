// The current principal and server, requested once before anything else is shown.
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";
import { once, type Problem, signIn } from "../api/client";
import { Failure, Loading } from "../ui/states";
import { forget, keep, kept } from "./keep";

export type Tool = { name: string; description: string };
export type Permission = "read" | "write" | "delete" | "admin";
/** What the server says of itself and of whoever asks. */
export type Here = {
  version: string;
  needs_key: boolean;
  signed_in: boolean;
  csrf: string | null;
  me: { tenant: string; permissions: Permission[]; user: string | null; agent: string | null; name: string } | null;
  user: string | null;
  model: string | null;
  tools: Tool[];
};
export type Who = {
  here: Here;
  /** The user whose memory is shown and who writes messages. */
  user: string;
  /** True if another user can be chosen: not with a key bound to one user. */
  choosable: boolean;
  /** Show another user's memory; null for the one that the server suggests. */
  choose: (user: string | null) => void;
  may: (permission: Permission) => boolean;
  /** Signed out in mid-work: the key is asked for over the page, or that was put off. */
  away: "asking" | "later" | null;
  /** Put off signing in again, or take it up. */
  later: (later: boolean) => void;
  /** Ask the server again, or take what it has just said. */
  refresh: (here?: Here) => void;
};

const Context = createContext<Who | null>(null);
const USER = "retain_user";

/** The current principal; only inside `<Known>`. */
export function useWho(): Who {
  const who = useContext(Context);
  if (!who) throw new Error("useWho outside of Known");
  return who;
}

/** The identity of the visible memory; a page is never kept when it changes. */
export const identity = ({ me }: Here): string => JSON.stringify(me && [me.tenant, me.user, me.agent]);

type Now = {
  here?: Here;
  away: Who["away"];
  waiting: ((again: boolean) => void)[];
  lost: (problem: Problem) => Promise<boolean>;
};

export function Known({ children }: { children: ReactNode }) {
  const [here, setHere] = useState<Here>();
  const [error, setError] = useState<unknown>();
  const [chosen, setChosen] = useState(kept(USER));
  const [away, setAway] = useState<Who["away"]>(null);
  // Current values for calls outside of a render: the last principal, and the calls that wait for a new sign-in.
  const now = useRef<Now>({ away: null, waiting: [], lost: async () => false });
  const turn = useCallback((next: Who["away"], again = false) => {
    now.current.away = next;
    setAway(next);
    if (next === "asking") return;
    for (const go of now.current.waiting.splice(0)) go(again);
  }, []);
  // `take` hands `lost` to the client, and `lost` calls `take`: each is reached through `now`, so neither depends on the other.
  const take = useCallback(
    (found: Here): boolean => {
      const before = now.current.here;
      const same = !!before?.signed_in && found.signed_in && identity(before) === identity(found);
      if (before?.signed_in && identity(before) !== identity(found)) return begin();
      now.current.here = found;
      signIn(found.csrf, now.current.lost);
      setHere(found);
      setError(undefined);
      turn(null, same);
      return same;
    },
    [turn],
  );
  now.current.lost = async (problem: Problem): Promise<boolean> => {
    if (problem.status === 403) return take(await ask()); // another tab signed in: this one has the older token
    if (!now.current.here?.signed_in || now.current.away === "later") return false;
    turn("asking");
    return new Promise((done) => now.current.waiting.push(done));
  };
  const refresh = useCallback(
    (said?: Here) => {
      if (said) take(said);
      else ask().then(take, setError);
    },
    [take],
  );
  useEffect(() => refresh(), [refresh]);
  useEffect(() => {
    if (!away) return;
    const look = () => void ask().then((found) => found.signed_in && take(found), Boolean); // perhaps in another tab
    window.addEventListener("focus", look);
    return () => window.removeEventListener("focus", look);
  }, [away, take]);
  const who = useMemo<Who | undefined>(() => {
    if (!here) return undefined;
    const bound = here.me?.user ?? null;
    return {
      here,
      user: bound ?? chosen ?? here.user ?? "default",
      choosable: bound === null,
      choose: (user) => {
        keep(USER, user);
        setChosen(user);
      },
      may: (permission) => here.me?.permissions.includes(permission) ?? false,
      away,
      later: (later) => turn(later ? "later" : "asking"),
      refresh,
    };
  }, [here, chosen, away, turn, refresh]);
  if (who) return <Context value={who}>{children}</Context>;
  if (error) return <Failure error={error} retry={() => refresh()} />;
  return <Loading />;
}

/** Somebody else is here, or nobody: nothing that this page or this browser has of the last one is theirs to see. */
function begin(): false {
  forget();
  location.assign("/");
  return false;
}

/** What the server says of itself and of whoever asks. */
const ask = async (): Promise<Here> => (await once("/api/web")).json();
