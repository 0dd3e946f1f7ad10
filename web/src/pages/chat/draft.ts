// The unsent message of a conversation. Text survives a reload; images stay as long as the app is open.
import { useCallback, useEffect, useState } from "react";
import { keep, kept } from "../../app/keep";

export type Draft = { text: string; images: string[] };

const nameOf = (user: string, session: string) => `chatDraft_${user}_${session}`;
const drafts = new Map<string, Draft>();

/** What was being written. Another window may have written on: its words count. */
export function draftOf(user: string, session: string): Draft {
  const name = nameOf(user, session);
  const here = drafts.get(name);
  return { text: kept(name) ?? here?.text ?? "", images: here?.images ?? [] };
}

export function keepDraft(user: string, session: string, draft: Draft): void {
  const name = nameOf(user, session);
  if (draft.text || draft.images.length) drafts.set(name, draft);
  else drafts.delete(name);
  keep(name, draft.text || null);
}

/** The draft of a conversation, kept at every change; a change is one of what is there by then. */
export function useDraft(user: string, session: string): [Draft, (change: (draft: Draft) => Draft) => void] {
  const [draft, setDraft] = useState(() => draftOf(user, session));
  useEffect(() => setDraft(draftOf(user, session)), [user, session]);
  const change = useCallback(
    (how: (draft: Draft) => Draft) => {
      const next = how(draftOf(user, session));
      keepDraft(user, session, next);
      setDraft(next);
    },
    [user, session],
  );
  return [draft, change];
}
