// A memory that an agent just stored with a tool: its text, a link to it, and a button to remove it.
import { useState } from "react";
import { errorMessage, get, remove } from "../../api/client";
import { useApp } from "../../app/context";
import { entryAt, notesOf } from "../../refs/places";
import { Link } from "../../ui/Link";
import { notify } from "../../ui/toast";
import css from "./chat.module.css";

const NOTES_TOOL = "manage_long_term_memory";

type Props = { agent: string; tool: string; result: { ok?: boolean; text: string } };
type Saved = { memory_type: string; content: string };

export function MemoryUpdate({ agent, tool, result }: Props) {
  if (result.ok === false) return null;
  if (tool === NOTES_TOOL)
    return (
      <p className={css.memoryUpdate}>
        <b>Memory updated</b> <Link href={notesOf(agent)}>Show the notes</Link>
      </p>
    );
  const saved = savedIn(result.text);
  return saved && <Entry agent={agent} saved={saved} />;
}

function Entry({ agent, saved }: { agent: string; saved: Saved }) {
  const { user, may } = useApp();
  const [state, setState] = useState<"there" | "busy" | "gone">("there");
  const find = async () => {
    const query = { user, agent, search: saved.content.slice(0, 200), limit: 50 };
    const { data } = await get("/api/entries", { query });
    return data.find((entry) => entry.content === saved.content && entry.kind === saved.memory_type);
  };
  const forget = async () => {
    setState("busy");
    try {
      const entry = await find();
      if (entry) await remove("/api/entries/{id}", { path: { id: entry.id }, query: { user, agent } });
      setState("gone");
      notify(entry ? "Forgotten." : "It was already removed.");
    } catch (error) {
      setState("there");
      notify(errorMessage(error));
    }
  };
  return (
    <p className={css.memoryUpdate}>
      <b>{state === "gone" ? "Forgotten" : "Memory updated"}</b> <q>{saved.content}</q>
      {state !== "gone" && saved.memory_type !== "whiteboard" && (
        <>
          <Link href={entryAt(agent, "")}>Show</Link>
          {may("delete") && (
            <button type="button" className="link" disabled={state === "busy"} onClick={forget}>
              Forget this
            </button>
          )}
        </>
      )}
    </p>
  );
}

/** The entry in the result of a tool that stores one, such as `save_to_core`; null for other results. */
function savedIn(text: string): Saved | null {
  try {
    const answer = JSON.parse(text);
    const isSaved =
      answer.success === true && typeof answer.content === "string" && typeof answer.memory_type === "string";
    return isSaved ? answer : null;
  } catch {
    return null;
  }
}
