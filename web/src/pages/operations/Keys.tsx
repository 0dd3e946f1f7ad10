// The API keys of the tenant: permissions and expiry; create and revoke keys.
import { useState } from "react";
import { get, remove } from "../../api/client";
import type { Key } from "../../api/index";
import { usePages } from "../../api/load";
import { useWho } from "../../app/who";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { PagedList } from "../../ui/PagedList";
import { Empty, Failure } from "../../ui/states";
import { Time } from "../../ui/time";
import { say } from "../../ui/toast";
import { NewKey } from "./NewKey";
import css from "./operations.module.css";

export function Keys() {
  const { here } = useWho();
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<Key | null>(null);
  const keys = usePages<Key>((after, signal) => get("/api/keys", { query: { limit: 200, after }, signal }), []);
  return (
    <>
      <div className="toolbar">
        <button type="button" className="primary" onClick={() => setMaking(true)}>
          <Icon name="plus" /> New key
        </button>
        <p className="quiet">
          {here.needs_key
            ? `Signed in as ${here.me?.name}. New keys cannot have more permissions than yours.`
            : "Nobody needs a key here yet: anyone on this machine has access."}
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
        {(key) => <Line one={key} revoke={() => setEnding(key)} />}
      </PagedList>
      {making && <NewKey close={() => setMaking(false)} made={keys.reload} />}
      {ending && (
        <Revoke
          one={ending}
          close={() => setEnding(null)}
          done={(key) => keys.edit((all) => all.map((other) => (other.id === key.id ? key : other)))}
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

function Line({ one, revoke }: { one: Key; revoke: () => void }) {
  const ended = !!one.expires_at && Date.parse(one.expires_at) <= Date.now();
  const gone = !!one.revoked_at || ended;
  return (
    <div className={gone ? `${css.keyLine} ${css.gone}` : css.keyLine}>
      <div>
        <p className={css.lineMain}>
          <b>{one.name}</b>
          {one.permissions.map((permission) => (
            <span key={permission} className="chip">
              {permission}
            </span>
          ))}
          {one.revoked_at ? (
            <span className="chip bad">Revoked</span>
          ) : (
            ended && <span className="chip warn">Expired</span>
          )}
        </p>
        <p className="quiet">
          {one.user && `Only for the user ${one.user} · `}
          {one.agent && `Only for the agent ${one.agent} · `}
          Created <Time at={one.created_at} />
          {" · "}
          {one.last_used_at ? (
            <>
              last used <Time at={one.last_used_at} />
            </>
          ) : (
            "never used"
          )}
          {one.revoked_at ? (
            <>
              {" · revoked "}
              <Time at={one.revoked_at} />
            </>
          ) : one.expires_at ? (
            <>
              {ended ? " · expired " : " · expires "}
              <Time at={one.expires_at} />
            </>
          ) : (
            " · never expires"
          )}
        </p>
      </div>
      {!gone && (
        <button type="button" className="danger" onClick={revoke} aria-label={`Revoke ${one.name}`}>
          Revoke
        </button>
      )}
    </div>
  );
}

function Revoke({ one, close, done }: { one: Key; close: () => void; done: (key: Key) => void }) {
  const { here } = useWho();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const act = async () => {
    setBusy(true);
    try {
      done(await remove("/api/keys/{id}", { path: { id: one.id } }));
      say(`Revoked: ${one.name}`);
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Revoke ${one.name}?`} yes="Revoke" busy={busy} act={act} close={close}>
      <p>
        Requests with this key are rejected from now on, and browsers that signed in with it are signed out. This cannot
        be undone.
      </p>
      {here.me?.name.endsWith(`(${one.id})`) && (
        <p className={css.callout}>You signed in with this key. After revoking it you must sign in with another one.</p>
      )}
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
