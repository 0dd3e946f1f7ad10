// Webhooks: the addresses that receive events, how far each is, and the events that it did not accept.
import { useState } from "react";
import { errorMessage, get, patch, remove } from "../../api/client";
import type { Webhook } from "../../api/index";
import { useLoad } from "../../api/load";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { notify } from "../../ui/toast";
import { DeadLetters } from "./DeadLetters";
import css from "./operations.module.css";
import { useRefresh } from "./refresh";
import { ShownOnce } from "./ShownOnce";
import { WebhookForm } from "./WebhookForm";
import { kindNames, replayWebhook, testWebhook } from "./webhook";

const REFRESH_SECONDS = 10;

export function Webhooks() {
  const webhooks = useLoad<Webhook[]>((signal) => get("/api/webhooks", { signal }), []);
  const [adding, setAdding] = useState(false);
  const [editing, setEditing] = useState<Webhook>();
  const [removing, setRemoving] = useState<Webhook>();
  const [secret, setSecret] = useState("");
  useRefresh(webhooks, REFRESH_SECONDS);
  return (
    <>
      <div className="toolbar">
        <button type="button" className="primary" onClick={() => setAdding(true)}>
          <Icon name="plus" /> Add webhook
        </button>
        <p className="quiet">The server posts every change to these addresses, in order, without its content.</p>
      </div>
      {webhooks.error ? <Failure error={webhooks.error} retry={webhooks.reload} /> : null}
      {!webhooks.data && webhooks.loading && <Loading label="Loading webhooks" />}
      {webhooks.data?.length === 0 && (
        <Empty title="No webhooks yet">
          <p>
            A webhook tells another program what was added, changed, learned or removed. The server must record events:{" "}
            <code className={css.setting}>events: on</code> in its settings.
          </p>
        </Empty>
      )}
      <ul className={css.webhooks} aria-label="Webhooks">
        {webhooks.data?.map((webhook) => (
          <li key={webhook.id}>
            <WebhookCard
              webhook={webhook}
              changed={webhooks.reload}
              edit={() => setEditing(webhook)}
              remove={() => setRemoving(webhook)}
            />
          </li>
        ))}
      </ul>
      {adding && (
        <WebhookForm
          close={() => setAdding(false)}
          saved={(created) => {
            setSecret(created ?? "");
            webhooks.reload();
          }}
        />
      )}
      {editing && <WebhookForm webhook={editing} close={() => setEditing(undefined)} saved={() => webhooks.reload()} />}
      {removing && <RemoveWebhook webhook={removing} close={() => setRemoving(undefined)} removed={webhooks.reload} />}
      {secret && (
        <ShownOnce title="Your new webhook" label="Secret" text={secret} close={() => setSecret("")}>
          <p>The receiver verifies the signature of each request with this secret.</p>
        </ShownOnce>
      )}
    </>
  );
}

type CardProps = { webhook: Webhook; changed: () => void; edit: () => void; remove: () => void };

function WebhookCard({ webhook, changed, edit, remove }: CardProps) {
  const { id, url, paused, dead_letters } = webhook;
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(false);
  const run = async (work: () => Promise<string>) => {
    setBusy(true);
    try {
      notify(await work());
    } catch (error) {
      notify(errorMessage(error));
    }
    setBusy(false);
    changed();
  };
  const test = async () => {
    const { delivered, error } = await testWebhook(id);
    return delivered ? "The receiver accepted a test event." : `The test failed: ${error}.`;
  };
  const pause = async () => {
    await patch("/api/webhooks/{id}", { path: { id }, body: { paused: !paused } });
    return paused ? "Events are sent again." : "Paused.";
  };
  const replay = async () => {
    const events = await replayWebhook(id);
    return `${countEvents(events)} will be sent again${paused ? " after you resume the webhook" : ""}.`;
  };
  return (
    <article className={`card ${css.webhook}`} aria-label={url}>
      <header>
        <h2 className={css.address}>{url}</h2>
        {paused && <span className="chip warn">Paused</span>}
        {!paused && webhook.tries > 0 && <span className="chip bad">Failing</span>}
      </header>
      <WebhookState webhook={webhook} />
      <div className="toolbar">
        <button type="button" disabled={busy} onClick={() => run(test)}>
          Test
        </button>
        <button type="button" disabled={busy} onClick={() => run(pause)}>
          {paused ? "Resume" : "Pause"}
        </button>
        <button type="button" onClick={edit}>
          Edit
        </button>
        <button type="button" className="danger" onClick={remove}>
          Delete…
        </button>
      </div>
      {dead_letters > 0 && (
        <div className={css.undelivered}>
          <p className={css.undeliveredCount}>
            <b>{countEvents(dead_letters)}</b> not accepted
          </p>
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Hide" : "Show"}
          </button>
          <button type="button" disabled={busy} onClick={() => run(replay)}>
            Send again
          </button>
          {open && <DeadLetters id={id} amount={dead_letters} />}
        </div>
      )}
    </article>
  );
}

/** What is sent, the last delivery, and the last error. */
function WebhookState({ webhook }: { webhook: Webhook }) {
  const { kinds, position, tries, error, retry_at, delivered_at, paused } = webhook;
  return (
    <div>
      <p className="quiet">
        {kinds.length ? `Events: ${kindNames(kinds)}` : "All events"}
        {" · "}
        {delivered_at ? (
          <>
            last delivery <Time at={delivered_at} />, up to event {count(position)}
          </>
        ) : (
          "nothing delivered yet"
        )}
      </p>
      {tries > 0 && (
        <p className="wrong">
          Failed {tries === 1 ? "once" : `${tries} times`}: {error}.{" "}
          {!paused && retry_at && (
            <>
              Next try <Time at={retry_at} />.
            </>
          )}
        </p>
      )}
    </div>
  );
}

type RemoveProps = { webhook: Webhook; close: () => void; removed: () => void };

function RemoveWebhook({ webhook, close, removed }: RemoveProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirmRemove = async () => {
    setBusy(true);
    try {
      await remove("/api/webhooks/{id}", { path: { id: webhook.id } });
      notify("Webhook deleted.");
      removed();
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title="Delete this webhook?" yes="Delete" busy={busy} onConfirm={confirmRemove} close={close}>
      <p className={css.address}>{webhook.url}</p>
      <p>
        It gets no more events
        {webhook.dead_letters > 0 &&
          `, and the ${countEvents(webhook.dead_letters)} that it did not accept are deleted`}
        . This cannot be undone. To stop only for a while, pause it.
      </p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}

const countEvents = (amount: number) => `${count(amount)} ${amount === 1 ? "event" : "events"}`;
