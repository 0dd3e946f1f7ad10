// The agent's private memory exactly as in its prompt.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { Failure, Loading } from "../../ui/states";
import css from "./agents.module.css";
import type { Scope } from "./editing";

type Props = { scope: Scope; path: "/api/entries/prompt" | "/api/entries/whiteboard"; label: string; reloads: number };

export function AgentView({ scope, path, label, reloads }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details className={css.asSeen} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {open && <PromptText scope={scope} path={path} reloads={reloads} />}
    </details>
  );
}

function PromptText({ scope, path, reloads }: Omit<Props, "label">) {
  const prompt = useLoad((signal) => get(path, { query: scope, signal }), [scope.agent, scope.user, path, reloads]);
  if (prompt.error) return <Failure error={prompt.error} retry={prompt.reload} />;
  if (prompt.data === undefined) return <Loading />;
  if (!prompt.data)
    return <p className="quiet">The prompt has no such section now, because there are no entries for it.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre tabIndex={0}>{prompt.data}</pre>
  );
}
