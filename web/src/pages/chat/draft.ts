// The unsent message of a conversation. Text survives a reload; images stay as long as the app is open.
import { useCallback, useEffect, useState } from "react";
import { readStored, store } from "../../app/storage";

export type Draft = { text: string; images: string[] };

const nameOf = (user: string, session: string) => `chatDraft_${user}_${session}`;
const drafts = new Map<string, Draft>();

/** The stored draft; another window may have changed it. */
export function draftOf(user: string, session: string): Draft {
  const name = nameOf(user, session);
  const draft = drafts.get(name);
  return { text: readStored(name) ?? draft?.text ?? "", images: draft?.images ?? [] };
}

export function keepDraft(user: string, session: string, draft: Draft): void {
  const name = nameOf(user, session);
  if (draft.text || draft.images.length) drafts.set(name, draft);
  else drafts.delete(name);
  store(name, draft.text || null);
}

/** The draft of a conversation. Every change is stored and applies to the latest draft. */
export function useDraft(user: string, session: string): [Draft, (change: (draft: Draft) => Draft) => void] {
  const [draft, setDraft] = useState(() => draftOf(user, session));
  useEffect(() => setDraft(draftOf(user, session)), [user, session]);
  const change = useCallback(
    (update: (draft: Draft) => Draft) => {
      const next = update(draftOf(user, session));
      keepDraft(user, session, next);
      setDraft(next);
    },
    [user, session],
  );
  return [draft, change];
}
