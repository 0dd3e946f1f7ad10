// The agent's private memory exactly as its prompt shows it.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { Failure, Loading } from "../../ui/states";
import css from "./agents.module.css";
import type { Scope } from "./editing";

type Shown = { scope: Scope; path: "/api/entries/prompt" | "/api/entries/whiteboard"; label: string; round: number };

export function AsSeen({ scope, path, label, round }: Shown) {
  const [open, setOpen] = useState(false);
  return (
    <details className={css.asSeen} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {open && <Told scope={scope} path={path} round={round} />}
    </details>
  );
}

function Told({ scope, path, round }: Omit<Shown, "label">) {
  const told = useLoad((signal) => get(path, { query: scope, signal }), [scope.agent, scope.user, path, round]);
  if (told.error) return <Failure error={told.error} retry={told.reload} />;
  if (told.data === undefined) return <Loading />;
  if (!told.data) return <p className="quiet">The prompt has no such section at the moment.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre tabIndex={0}>{told.data}</pre>
  );
}
