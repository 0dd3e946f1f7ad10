// The message that nobody has sent: it goes with the place in this tab's history, so that a reload and Back find it, and not
// with the address, which servers write down.
import { kept } from "../../app/keep";

export const keepMessage = (message: string) => history.replaceState({ message }, "");

/** What was being written here; else what is being written in the conversation's chat. */
export function messageHere(user: string, session: string): string {
  const here: unknown = history.state?.message;
  return typeof here === "string" ? here : (kept(`chatDraft_${user}_${session}`) ?? "");
}
