// Confirm before removing an agent's settings.
import { useState } from "react";
import { errorMessage, remove } from "../../api/client";
import { go } from "../../app/route";
import { Confirm } from "../../ui/Dialog";
import { notify } from "../../ui/toast";

export function RemoveAgent({ name, close }: { name: string; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setWrong] = useState<string>();
  const confirmRemoval = async () => {
    setBusy(true);
    try {
      await remove("/api/agents/{name}", { path: { name } });
      notify(`${name} is no longer set up.`);
      go("/agents");
    } catch (error) {
      setWrong(errorMessage(error));
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${name}?`} yes="Remove" busy={busy} onConfirm={confirmRemoval} close={close}>
      <p>
        Its settings are forgotten: prompt, model, tools, colour and icon. Its conversations and its memory stay, and
        come back if an agent of this name is made again.
      </p>
      {error && (
        <p className="wrong" role="alert">
          {error}
        </p>
      )}
    </Confirm>
  );
}
