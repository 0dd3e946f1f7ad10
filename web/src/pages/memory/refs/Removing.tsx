// Remove one or many references after a confirmation; those that cannot be removed are reported and stay.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Ref } from "../../../api/index";
import { useWho } from "../../../app/who";
import { useAlive } from "../../../ui/alive";
import { Confirm } from "../../../ui/Dialog";
import { Failure } from "../../../ui/states";
import { say } from "../../../ui/toast";

type Shown = { refs: Ref[]; gone: (key: string) => void; close: () => void };

const NAMED = 5;

export function Removing({ refs, gone, close }: Shown) {
  const { user } = useWho();
  const alive = useAlive();
  const [left, setLeft] = useState(refs);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const act = async () => {
    setBusy(true);
    setError(undefined);
    try {
      for (const { key } of left) {
        if (!alive.current) return; // called off: what is left stays
        await remove("/api/refs/{key}", { path: { key }, query: { user } }).catch(unlessGone);
        gone(key);
        setLeft((before) => before.filter((one) => one.key !== key));
      }
      say(refs.length === 1 ? "The reference is removed." : `${refs.length} references are removed.`);
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const many = left.length > 1;
  return (
    <Confirm
      title={many ? `Remove ${left.length} references?` : "Remove this reference?"}
      yes="Remove"
      busy={busy}
      act={act}
      close={close}
    >
      <ul>
        {left.slice(0, NAMED).map((ref) => (
          <li key={ref.key}>{ref.summary}</li>
        ))}
        {left.length > NAMED && <li className="quiet">and {left.length - NAMED} more</li>}
      </ul>
      <p>
        {many ? "Their contents are" : "Its content is"} gone for good. Conversations keep the {many ? "lines" : "line"}{" "}
        that stood for {many ? "them" : "it"}, which then {many ? "open" : "opens"} nothing.
      </p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}

function unlessGone(failure: unknown): void {
  if (!(failure instanceof Problem && failure.status === 404)) throw failure;
}
