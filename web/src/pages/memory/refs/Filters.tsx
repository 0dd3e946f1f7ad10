// Filters of references: words, type, active or not, conversation.
import type { FormEvent } from "react";
import { get } from "../../../api/client";
import { useLoad } from "../../../api/load";
import { conversationName } from "../../../app/conversation";
import { useWho } from "../../../app/who";
import { useHeld } from "../../../ui/typed";
import { useAsked } from "../asked";
import css from "../memory.module.css";

const TYPES = ["command_output", "file_content", "note", "tool_output", "user_preference"];

/** `types` are those that are on the page: programs name their own. */
export function Filters({ types }: { types: string[] }) {
  const { user } = useWho();
  const { query, ask } = useAsked();
  const [text, setText] = useHeld(query.get("q") ?? "");
  const sessions = useLoad((signal) => get("/api/chat/sessions", { query: { user, limit: 50 }, signal }), [user]);
  const session = query.get("session") ?? "";
  const type = query.get("type") ?? "";
  const known = sessions.data?.data.map((one) => ({ id: one.id, label: conversationName(one) })) ?? [];
  if (session && !known.some((one) => one.id === session)) known.unshift({ id: session, label: session });
  const search = (event: FormEvent) => {
    event.preventDefault();
    ask({ q: text.trim() || undefined });
  };
  return (
    <>
      <form className={css.finding} onSubmit={search}>
        <input
          type="search"
          aria-label="Search in the references"
          placeholder="Search in the references…"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            if (!event.target.value) ask({ q: undefined });
          }}
        />
      </form>
      <select aria-label="Type" value={type} onChange={(event) => ask({ type: event.target.value || undefined })}>
        <option value="">All types</option>
        {[...new Set([...TYPES, ...types, ...(type ? [type] : [])])].map((one) => (
          <option key={one} value={one}>
            {one.replaceAll("_", " ")}
          </option>
        ))}
      </select>
      <select
        aria-label="In prompts"
        value={query.get("active") ?? ""}
        onChange={(event) => ask({ active: event.target.value || undefined })}
      >
        <option value="">Active and inactive</option>
        <option value="true">Active</option>
        <option value="false">Inactive</option>
      </select>
      {known.length > 0 && (
        <select
          className={css.short}
          aria-label="Conversation"
          value={session}
          onChange={(event) => ask({ session: event.target.value || undefined })}
        >
          <option value="">All conversations</option>
          {known.map((one) => (
            <option key={one.id} value={one.id}>
              {one.label}
            </option>
          ))}
        </select>
      )}
    </>
  );
}
