// The API keys of the tenant: permissions and expiry; create and revoke keys.
import { useState } from "react";
import { get, remove } from "../../api/client";
import type { ApiKey } from "../../api/index";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { PagedList } from "../../ui/PagedList";
import { Empty, Failure } from "../../ui/states";
import { Time } from "../../ui/time";
import { notify } from "../../ui/toast";
import { NewKey } from "./NewKey";
import css from "./operations.module.css";

export function Keys() {
  const { server } = useApp();
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<ApiKey | null>(null);
  const keys = usePages<ApiKey>((after, signal) => get("/api/keys", { query: { limit: 200, after }, signal }), []);
  return (
    <>
      <div className="toolbar">
        <button type="button" className="primary" onClick={() => setMaking(true)}>
          <Icon name="plus" /> New key
        </button>
        <p className="quiet">
          {server.needs_key
            ? `Signed in as ${server.me?.name}. New keys cannot have more permissions than yours.`
            : "No key is required yet: anyone on this machine has access."}
        </p>
      </div>
      <PagedList
        pages={keys}
        keyOf={(key) => key.id}
        size={72}
        label="API keys"
        className={css.tall}
        empty={<NoKeys />}
      >
        {(key) => <Line record={key} revoke={() => setEnding(key)} />}
      </PagedList>
      {making && <NewKey close={() => setMaking(false)} onCreated={keys.reload} />}
      {ending && (
        <Revoke
          record={ending}
          close={() => setEnding(null)}
          done={(key) => keys.edit((list) => list.map((other) => (other.id === key.id ? key : other)))}
        />
      )}
    </>
  );
}

const NoKeys = () => (
  <Empty title="No keys yet">
    <p>API keys let programs and people sign in. Once a key exists, everyone needs one.</p>
  </Empty>
);

function Line({ record, revoke }: { record: ApiKey; revoke: () => void }) {
  const hasExpired = !!record.expires_at && Date.parse(record.expires_at) <= Date.now();
  const isInactive = !!record.revoked_at || hasExpired;
  return (
    <div className={isInactive ? `${css.keyLine} ${css.gone}` : css.keyLine}>
      <div>
        <p className={css.lineMain}>
          <b>{record.name}</b>
          {record.permissions.map((permission) => (
            <span key={permission} className="chip">
              {permission}
            </span>
          ))}
          {record.revoked_at ? (
            <span className="chip bad">Revoked</span>
          ) : (
            hasExpired && <span className="chip warn">Expired</span>
          )}
        </p>
        <p className="quiet">
          {record.user && `Only for the user ${record.user} · `}
          {record.agent && `Only for the agent ${record.agent} · `}
          Created <Time at={record.created_at} />
          {" · "}
          {record.last_used_at ? (
            <>
              last used <Time at={record.last_used_at} />
            </>
          ) : (
            "never used"
          )}
          {record.revoked_at ? (
            <>
              {" · revoked "}
              <Time at={record.revoked_at} />
            </>
          ) : record.expires_at ? (
            <>
              {hasExpired ? " · expired " : " · expires "}
              <Time at={record.expires_at} />
            </>
          ) : (
            " · never expires"
          )}
        </p>
      </div>
      {!isInactive && (
        <button type="button" className="danger" onClick={revoke} aria-label={`Revoke ${record.name}`}>
          Revoke
        </button>
      )}
    </div>
  );
}

function Revoke({ record, close, done }: { record: ApiKey; close: () => void; done: (key: ApiKey) => void }) {
  const { server } = useApp();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const confirmRevoke = async () => {
    setBusy(true);
    try {
      done(await remove("/api/keys/{id}", { path: { id: record.id } }));
      notify(`Revoked: ${record.name}`);
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Revoke ${record.name}?`} yes="Revoke" busy={busy} onConfirm={confirmRevoke} close={close}>
      <p>
        Requests with this key are rejected from now on, and browsers that signed in with it are signed out. This cannot
        be undone.
      </p>
      {server.me?.name.endsWith(`(${record.id})`) && (
        <p className={css.callout}>
          You signed in with this key. After revoking it, you must sign in with another key.
        </p>
      )}
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
