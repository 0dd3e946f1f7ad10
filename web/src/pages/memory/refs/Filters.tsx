// Filters of references: words, type, active or not, conversation.
import type { FormEvent } from "react";
import { get } from "../../../api/client";
import { useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { conversationName } from "../../../app/conversation";
import { useTextFromAddress } from "../../../ui/addressText";
import css from "../memory.module.css";
import { usePageState } from "../pageState";

const TYPES = ["command_output", "file_content", "note", "tool_output", "user_preference"];

/** The filters of references. `types` are those on the page, because programs can define their own. */
export function Filters({ types }: { types: string[] }) {
  const { user } = useApp();
  const { query, change } = usePageState();
  const [text, setText] = useTextFromAddress(query.get("q") ?? "");
  const sessions = useLoad((signal) => get("/api/chat/sessions", { query: { user, limit: 50 }, signal }), [user]);
  const session = query.get("session") ?? "";
  const type = query.get("type") ?? "";
  const options = sessions.data?.data.map((item) => ({ id: item.id, label: conversationName(item) })) ?? [];
  if (session && !options.some((option) => option.id === session)) options.unshift({ id: session, label: session });
  const search = (event: FormEvent) => {
    event.preventDefault();
    change({ q: text.trim() || undefined });
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
            if (!event.target.value) change({ q: undefined });
          }}
        />
      </form>
      <select aria-label="Type" value={type} onChange={(event) => change({ type: event.target.value || undefined })}>
        <option value="">All types</option>
        {[...new Set([...TYPES, ...types, ...(type ? [type] : [])])].map((option) => (
          <option key={option} value={option}>
            {option.replaceAll("_", " ")}
          </option>
        ))}
      </select>
      <select
        aria-label="In prompts"
        value={query.get("active") ?? ""}
        onChange={(event) => change({ active: event.target.value || undefined })}
      >
        <option value="">Active and inactive</option>
        <option value="true">Active</option>
        <option value="false">Inactive</option>
      </select>
      {options.length > 0 && (
        <select
          className={css.short}
          aria-label="Conversation"
          value={session}
          onChange={(event) => change({ session: event.target.value || undefined })}
        >
          <option value="">All conversations</option>
          {options.map((option) => (
            <option key={option.id} value={option.id}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </>
  );
}
