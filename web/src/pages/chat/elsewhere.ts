// Follow other windows and devices: new messages appear here, and if they switch to another conversation, this window
// says so. It never switches by itself after a message was sent or while one is being written.
import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client";
import { kept } from "../../app/keep";
import { elsewhere, nameOf } from "./session";
import type { Talk } from "./talk";

const SECONDS = 10;

/** `writing`: something is being written here. `named`: this window was sent to this conversation, which need not be the one that is gone on with. */
export function useElsewhere(talk: Talk, named: boolean, writing: boolean, follow: () => void) {
  const [other, setOther] = useState<string | null>(null);
  const agent = talk.session?.agent;
  const now = useRef(writing); // whoever writes must not put off what comes from elsewhere
  now.current = writing;
  useEffect(() => {
    if (!agent) return;
    const look = (active: string | null) => {
      const unsaid = now.current || talk.sent.length > 0;
      const what = elsewhere(talk.id, active, { count: talk.session?.count ?? 0, unsaid });
      if (what === "follow" && !named) follow();
      else setOther(what === "stay" ? null : active);
    };
    const stored = (event: StorageEvent) => {
      if (event.key === nameOf(talk.user, agent) && event.newValue) look(event.newValue);
    };
    const came = async () => {
      if (document.hidden) return;
      if (!talk.busy) talk.refresh().catch(() => {});
      if (named && kept(nameOf(talk.user, agent)) !== talk.id) return; // somebody looks something up
      const query = { user: talk.user, agent };
      get("/api/sessions/active", { query }).then(
        (active) => look(active.id),
        () => {}, // the conversation says itself that the server is away
      );
    };
    const timer = setInterval(() => {
      if (!document.hidden && !talk.busy) talk.refresh().catch(() => {});
    }, SECONDS * 1000);
    window.addEventListener("storage", stored);
    window.addEventListener("focus", came);
    document.addEventListener("visibilitychange", came);
    return () => {
      clearInterval(timer);
      window.removeEventListener("storage", stored);
      window.removeEventListener("focus", came);
      document.removeEventListener("visibilitychange", came);
    };
  }, [talk, agent, named, follow]);
  return { other, dismiss: () => setOther(null) };
}
