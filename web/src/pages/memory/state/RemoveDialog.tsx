// Remove a state key after a confirmation, and only in the version that was shown.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Item } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";

type Props = { item: Item; area: string; onRemoved: () => void; close: () => void };

export function RemoveDialog({ item, area, onRemoved, close }: Props) {
  const { user } = useApp();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const done = () => {
    onRemoved();
    notify(`${item.key} is removed.`);
    close();
  };
  const confirmRemoval = async () => {
    setBusy(true);
    try {
      const query = { user, area, if_version: item.version };
      await remove("/api/state/{key}", { path: { key: item.key }, query });
      done();
    } catch (failure) {
      if (failure instanceof Problem && failure.status === 404) return done(); // it has expired or was removed elsewhere
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${item.key}?`} yes="Remove" busy={busy} onConfirm={confirmRemoval} close={close}>
      <p>The value is deleted permanently.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
