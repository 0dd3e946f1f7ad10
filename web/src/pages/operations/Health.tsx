// The health of the server: problems first, then details, refreshed every few seconds while the page is visible.
import { useEffect, useRef } from "react";
import { useLoad } from "../../api/load";
import { useWho } from "../../app/who";
import { Failure, Loading } from "../../ui/states";
import { count, moment } from "../../ui/time";
import { Facts } from "./Facts";
import { type Finding, findings } from "./health";
import { look } from "./look";
import css from "./operations.module.css";
import { Work } from "./Work";

const SECONDS = 10;
const STATES = { problem: "Problem", warning: "Warning", ok: "OK" };

export function Health() {
  const { here, may } = useWho();
  const admin = may("admin") && !here.me?.user && !here.me?.agent;
  const seen = useLoad((signal) => look(admin, signal), [admin]);
  const looking = useRef(false);
  looking.current = seen.loading;
  const { reload } = seen;
  useEffect(() => {
    const again = () => document.hidden || looking.current || reload(); // a slow check is not started again
    const timer = setInterval(again, SECONDS * 1000);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [reload]);
  if (!seen.data) return <Loading what="Checking" />;
  const { trouble, status, error, at } = seen.data;
  const found = findings({ trouble, status, model: here.model, needsKey: here.needs_key, now: Date.parse(at) });
  const wrong = found.filter((one) => one.state !== "ok").length;
  return (
    <>
      <div className="toolbar">
        <p role="status">
          {wrong ? `${wrong} ${wrong === 1 ? "item needs" : "items need"} attention.` : "No problems found."}
        </p>
        <p className="quiet">
          Checked at {moment(at)}; checked again every {SECONDS} s.
        </p>
        <button type="button" onClick={seen.reload}>
          Check now
        </button>
      </div>
      <ul className={css.findings} aria-label="Findings">
        {found.map((one) => (
          <OneFinding key={one.what + one.found} one={one} />
        ))}
      </ul>
      {error && trouble !== undefined ? <Failure error={error} retry={seen.reload} /> : null}
      {!admin && (
        <p className="quiet">Database statistics and due jobs are visible to keys with the admin permission.</p>
      )}
      {status && (
        <>
          <Work status={status} />
          <section className="card">
            <h2>Details</h2>
            <Facts
              facts={[
                ["Version", status.version],
                ["Database", status.database],
                ["Schema", status.schema],
                ["Tenants", count(status.tenants)],
                ["Running since", status.started_at && moment(status.started_at)],
                ["Model", status.model],
                ["Embedder", status.embedder],
                ["Pending vectors", status.vectors.pending],
                ["Oldest pending", status.vectors.pending ? `${status.vectors.embedding_lag_seconds} s` : null],
              ]}
            />
          </section>
          <Rows rows={status.rows} />
        </>
      )}
    </>
  );
}

function OneFinding({ one }: { one: Finding }) {
  return (
    <li className={css.finding}>
      <span className={one.state === "problem" ? "chip bad" : one.state === "warning" ? "chip warn" : "chip"}>
        {STATES[one.state]}
      </span>
      <p>
        <b>{one.what}</b>: {one.found}
        {one.todo && <span className="quiet"> {one.todo}</span>}
      </p>
    </li>
  );
}

/** How many rows each table has. */
function Rows({ rows }: { rows: Record<string, number> }) {
  return (
    <section className="card" aria-label="Rows">
      <h2>Rows</h2>
      <dl className={css.rows}>
        {Object.entries(rows)
          .sort(([, one], [, other]) => other - one)
          .map(([name, amount]) => (
            <div key={name}>
              <dt>{name.replaceAll("_", " ")}</dt>
              <dd>{count(amount)}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}
