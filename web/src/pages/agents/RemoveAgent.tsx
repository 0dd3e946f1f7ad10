// Confirm before removing an agent's settings.
import { useState } from "react";
import { remove, told } from "../../api/client";
import { go } from "../../app/route";
import { Confirm } from "../../ui/Dialog";
import { say } from "../../ui/toast";

export function RemoveAgent({ name, close }: { name: string; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();
  const act = async () => {
    setBusy(true);
    try {
      await remove("/api/agents/{name}", { path: { name } });
      say(`${name} is no longer set up.`);
      go("/agents");
    } catch (error) {
      setWrong(told(error));
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Remove ${name}?`} yes="Remove" busy={busy} act={act} close={close}>
      <p>
        Its settings are forgotten: prompt, model, tools, colour and icon. Its conversations and its memory stay, and
        come back if an agent of this name is made again.
      </p>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
    </Confirm>
  );
}
