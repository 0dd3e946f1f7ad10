// The message to preview. It is stored in the history entry of the tab, so that a reload and Back restore it, and not in the
// address, which servers log.
import { kept } from "../../app/keep";

export const keepMessage = (message: string) => history.replaceState({ message }, "");

/** What was being written here; else what is being written in the conversation's chat. */
export function messageHere(user: string, session: string): string {
  const here: unknown = history.state?.message;
  return typeof here === "string" ? here : (kept(`chatDraft_${user}_${session}`) ?? "");
}
