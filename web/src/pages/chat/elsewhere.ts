// Follow other windows and devices: new messages appear here, and a notice tells if they switched to another
// conversation. This window never switches by itself after a message was sent or while the user is writing.
import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client";
import { readStored } from "../../app/storage";
import { nameOf, onOtherActive } from "./session";
import type { Talk } from "./talk";

const SECONDS = 10;

/** Follow changes elsewhere. `isNamed`: the address names this conversation, which need not be the active one. */
export function useElsewhere(talk: Talk, isNamed: boolean, writing: boolean, follow: () => void) {
  const [other, setOther] = useState<string | null>(null);
  const agent = talk.session?.agent;
  const now = useRef(writing); // a ref, so that typing does not restart the effect
  now.current = writing;
  useEffect(() => {
    if (!agent) return;
    const react = (active: string | null) => {
      const hasUnsent = now.current || talk.outbox.length > 0;
      const action = onOtherActive(talk.id, active, { count: talk.session?.count ?? 0, hasUnsent });
      if (action === "follow" && !isNamed) follow();
      else setOther(action === "stay" ? null : active);
    };
    const stored = (event: StorageEvent) => {
      if (event.key === nameOf(talk.user, agent) && event.newValue) react(event.newValue);
    };
    const checkActive = async () => {
      if (document.hidden) return;
      if (!talk.busy) talk.refresh().catch(() => {});
      if (isNamed && readStored(nameOf(talk.user, agent)) !== talk.id) return; // the user opened an older conversation
      const query = { user: talk.user, agent };
      get("/api/sessions/active", { query }).then(
        (active) => react(active.id),
        () => {}, // the conversation shows the connection error
      );
    };
    const timer = setInterval(() => {
      if (!document.hidden && !talk.busy) talk.refresh().catch(() => {});
    }, SECONDS * 1000);
    window.addEventListener("storage", stored);
    window.addEventListener("focus", checkActive);
    document.addEventListener("visibilitychange", checkActive);
    return () => {
      clearInterval(timer);
      window.removeEventListener("storage", stored);
      window.removeEventListener("focus", checkActive);
      document.removeEventListener("visibilitychange", checkActive);
    };
  }, [talk, agent, isNamed, follow]);
  return { other, dismiss: () => setOther(null) };
}
