// The message to preview. It is stored in the history entry of the tab, so that a reload and Back restore it, and not in the
// address, which servers log.
import { readStored } from "../../app/storage";

export const keepMessage = (message: string) => history.replaceState({ message }, "");

/** The message being previewed; else the draft of the conversation's chat. */
export function messageHere(user: string, session: string): string {
  const draft: unknown = history.state?.message;
  return typeof draft === "string" ? draft : (readStored(`chatDraft_${user}_${session}`) ?? "");
}
