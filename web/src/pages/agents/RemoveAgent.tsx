// Confirm before removing an agent's settings.
import { useState } from "react";
import { errorMessage, remove } from "../../api/client";
import { go } from "../../app/route";
import { Confirm } from "../../ui/Dialog";
import { notify } from "../../ui/toast";

export function RemoveAgent({ name, close }: { name: string; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const confirmRemoval = async () => {
    setBusy(true);
    try {
      await remove("/api/agents/{name}", { path: { name } });
      notify(`The settings of ${name} are deleted.`);
      go("/agents");
    } catch (error) {
      setError(errorMessage(error));
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${name}?`} yes="Remove" busy={busy} onConfirm={confirmRemoval} close={close}>
      <p>
        This deletes its settings: prompt, model, tools, colour and icon. Its conversations and its memory stay; an
        agent with the same name uses them again.
      </p>
      {error && (
        <p className="wrong" role="alert">
          {error}
        </p>
      )}
    </Confirm>
  );
}
