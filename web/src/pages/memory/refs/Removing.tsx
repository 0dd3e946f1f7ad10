// Removing references, one or many, after asking; what could not be removed is said and stays.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import { useWho } from "../../../app/who";
import { Confirm } from "../../../ui/Dialog";
import { Failure } from "../../../ui/states";
import { say } from "../../../ui/toast";

type Shown = { keys: string[]; gone: (key: string) => void; close: () => void };

export function Removing({ keys, gone, close }: Shown) {
  const { user } = useWho();
  const [left, setLeft] = useState(keys);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const act = async () => {
    setBusy(true);
    setError(undefined);
    try {
      for (const key of left) {
        await remove("/api/refs/{key}", { path: { key }, query: { user } }).catch(unlessGone);
        gone(key);
        setLeft((before) => before.filter((one) => one !== key));
      }
      say(keys.length === 1 ? "The reference is removed." : `${keys.length} references are removed.`);
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
