// Remove one or many references after a confirmation; those that cannot be removed are reported and stay.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Ref } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { useMounted } from "../../../ui/mounted";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";

type Props = { refs: Ref[]; onRemoved: (key: string) => void; close: () => void };

const NAMED = 5;

export function RemoveDialog({ refs, onRemoved, close }: Props) {
  const { user } = useApp();
  const mounted = useMounted();
  const [remaining, setRemaining] = useState(refs);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirmRemoval = async () => {
    setBusy(true);
    setError(undefined);
    try {
      for (const { key } of remaining) {
        if (!mounted.current) return; // cancelled: keep the remaining ones
        await remove("/api/refs/{key}", { path: { key }, query: { user } }).catch(unlessGone);
        onRemoved(key);
        setRemaining((previous) => previous.filter((item) => item.key !== key));
      }
      notify(refs.length === 1 ? "The reference is removed." : `${refs.length} references are removed.`);
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const isPlural = remaining.length > 1;
  return (
    <Confirm
      title={isPlural ? `Remove ${remaining.length} references?` : "Remove this reference?"}
      yes="Remove"
      busy={busy}
      onConfirm={confirmRemoval}
      close={close}
    >
      <ul>
        {remaining.slice(0, NAMED).map((ref) => (
          <li key={ref.key}>{ref.summary}</li>
        ))}
        {remaining.length > NAMED && <li className="quiet">and {remaining.length - NAMED} more</li>}
      </ul>
      <p>
        {isPlural ? "Their contents are" : "Its content is"} deleted permanently. Placeholders in conversations stay,
        but can no longer be opened.
      </p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}

function unlessGone(failure: unknown): void {
  if (!(failure instanceof Problem && failure.status === 404)) throw failure;
}
