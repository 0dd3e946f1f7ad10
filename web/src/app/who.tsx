// Who is here: asked of the server once, before anything else is shown.
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useState } from "react";
import { fetched, signIn } from "../api/client";
import { Failure, Loading } from "../ui/states";
import { keep, kept } from "./keep";

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
  /** Whose memory is shown, and who speaks. */
  user: string;
  /** Whether another user may be chosen: not with a key that is one user's. */
  choosable: boolean;
  choose: (user: string) => void;
  may: (permission: Permission) => boolean;
  /** Ask the server again, or take what it has just said. */
  refresh: (here?: Here) => void;
};

const Context = createContext<Who | null>(null);
const USER = "retain_user";

/** Who is here; only below `<Known>`. */
export function useWho(): Who {
  const who = useContext(Context);
  if (!who) throw new Error("useWho outside of Known");
  return who;
}

export function Known({ children }: { children: ReactNode }) {
  const [here, setHere] = useState<Here>();
  const [error, setError] = useState<unknown>();
  const [chosen, setChosen] = useState(kept(USER));
  const refresh = useCallback((said?: Here) => {
    const take = (found: Here) => {
      signIn(found.csrf, () => setHere((before) => (before?.needs_key ? { ...before, signed_in: false } : before)));
      setHere(found);
      setError(undefined);
    };
    if (said) take(said);
    else fetched("/api/web").then(async (answer) => take(await answer.json()), setError);
  }, []);
  useEffect(refresh, []);
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
      refresh,
    };
  }, [here, chosen]);
  if (who) return <Context value={who}>{children}</Context>;
  if (error) return <Failure error={error} retry={() => refresh()} />;
  return <Loading />;
}
