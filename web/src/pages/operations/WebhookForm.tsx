// Add a webhook, or change one. The secret of a new one is shown once, in the next dialog.
import { type FormEvent, useState } from "react";
import { patch } from "../../api/client";
import type { Webhook } from "../../api/index";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Failure } from "../../ui/states";
import { notify } from "../../ui/toast";
import css from "./operations.module.css";
import { areSameKinds, createWebhook, type EventKind, KINDS } from "./webhook";

type Props = { webhook?: Webhook; close: () => void; saved: (secret?: string) => void };

export function WebhookForm({ webhook, close, saved }: Props) {
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [kinds, setKinds] = useState<EventKind[]>((webhook?.kinds ?? []) as EventKind[]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    const body = { url: url.trim(), kinds };
    try {
      if (webhook) {
        await patch("/api/webhooks/{id}", { path: { id: webhook.id }, body });
        notify("Webhook saved.");
        saved();
      } else {
        saved(await createWebhook(body));
      }
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const toggle = (kind: EventKind, wanted: boolean) =>
    setKinds((previous) => (wanted ? [...previous, kind] : previous.filter((other) => other !== kind)));
  const isChanged = url.trim() !== (webhook?.url ?? "") || !areSameKinds(kinds, webhook?.kinds ?? []);
  return (
    <Dialog title={webhook ? "Edit the webhook" : "Add a webhook"} close={close} dirty={isChanged}>
      <form onSubmit={submit}>
        <Field label="Address" hint="The server posts each event there, signed, and expects a status of 2xx.">
          <input
            type="url"
            required
            value={url}
            placeholder="https://example.org/hooks"
            onChange={(event) => setUrl(event.target.value)}
          />
        </Field>
        <fieldset>
          <legend>Events of these kinds</legend>
          <p className="quiet">Choose none for all events.</p>
          <div className={css.kinds}>
            {(Object.keys(KINDS) as EventKind[]).map((kind) => (
              <label key={kind} className="check">
                <input
                  type="checkbox"
                  checked={kinds.includes(kind)}
                  onChange={(event) => toggle(kind, event.target.checked)}
                />
                {KINDS[kind]}
              </label>
            ))}
          </div>
        </fieldset>
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !url.trim()}>
            {webhook ? "Save" : "Add"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
