// One conversation in the list: its name (editable in place), participants, time and length.
import { type FormEvent, useState } from "react";
import { errorMessage, patch } from "../../api/client";
import type { ChatSession } from "../../api/index";
import { useApp } from "../../app/context";
import { conversationName } from "../../app/conversation";
import { to } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { count, Time } from "../../ui/time";
import css from "./chat.module.css";

type Props = {
  session: ChatSession;
  current: boolean;
  open: () => void;
  remove: (() => void) | undefined;
  renamed: (session: ChatSession) => void;
};

export function SessionItem({ session, current, open, remove, renamed }: Props) {
  const { may } = useApp();
  const [naming, setNaming] = useState(false);
  const title = conversationName(session);
  if (naming) return <RenameDialog session={session} renamed={renamed} close={() => setNaming(false)} />;
  return (
    <li className={current ? css.here : undefined}>
      <Link
        className={css.sessionsLink}
        href={to(["chat", session.agent, session.id])}
        aria-current={current ? "true" : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          open();
        }}
      >
        <span className={css.title}>{title}</span>
        <span className={`quiet ${css.meta}`}>
          {agentsOf(session).join(", ")} · <Time at={session.last_message_at ?? session.updated_at} /> ·{" "}
          {count(session.count)} {session.count === 1 ? "message" : "messages"}
        </span>
      </Link>
      {may("write") && (
        <button type="button" className="icon" aria-label={`Rename ${title}`} onClick={() => setNaming(true)}>
          <Icon name="edit" />
        </button>
      )}
      {remove && (
        <button type="button" className="icon" aria-label={`Delete ${title}`} onClick={remove}>
          <Icon name="remove" />
        </button>
      )}
    </li>
  );
}

/** The agents of a conversation: its own, or those of a group. */
export function agentsOf(session: Pick<ChatSession, "agent" | "attributes">): string[] {
  const agents = session.attributes.agents;
  const names = Array.isArray(agents) ? agents.filter((name): name is string => typeof name === "string") : [];
  return names.length > 1 ? names : [session.agent];
}

type RenameProps = { session: ChatSession; renamed: (session: ChatSession) => void; close: () => void };

function RenameDialog({ session, renamed, close }: RenameProps) {
  const { user } = useApp();
  const [label, setLabel] = useState(session.title);
  const [error, setError] = useState("");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const path = { id: session.id };
      renamed(await patch("/api/chat/sessions/{id}", { path, query: { user }, body: { label: label.trim() } }));
      close();
    } catch (error) {
      setError(errorMessage(error));
    }
  };
  return (
    <li>
      <form className={css.naming} onSubmit={submit}>
        <input
          value={label}
          aria-label="Name of the conversation"
          autoFocus
          maxLength={200}
          onChange={(event) => setLabel(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && close()}
        />
        <button type="submit" className="icon" aria-label="Save the name">
          <Icon name="check" />
        </button>
        <button type="button" className="icon" aria-label="Cancel" onClick={close}>
          <Icon name="close" />
        </button>
        {error && (
          <p className="wrong" role="alert">
            {error}
          </p>
        )}
      </form>
    </li>
  );
}
