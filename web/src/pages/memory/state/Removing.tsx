// Remove a state key after a confirmation, and only in the version that was shown.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Item } from "../../../api/index";
import { useWho } from "../../../app/who";
import { Confirm } from "../../../ui/Dialog";
import { Failure } from "../../../ui/states";
import { say } from "../../../ui/toast";

type Shown = { item: Item; area: string; gone: () => void; close: () => void };

export function Removing({ item, area, gone, close }: Shown) {
  const { user } = useWho();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const done = () => {
    gone();
    say(`${item.key} is removed.`);
    close();
  };
  const act = async () => {
    setBusy(true);
    try {
      const query = { user, area, if_version: item.version };
      await remove("/api/state/{key}", { path: { key: item.key }, query });
      done();
    } catch (failure) {
      if (failure instanceof Problem && failure.status === 404) return done(); // it went by itself
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${item.key}?`} yes="Remove" busy={busy} act={act} close={close}>
      <p>The value is deleted permanently.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
