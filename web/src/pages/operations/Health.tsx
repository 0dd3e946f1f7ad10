// The health of the server: problems first, then details, refreshed every few seconds while the page is visible.
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { Failure, Loading } from "../../ui/states";
import { count, moment } from "../../ui/time";
import { checkHealth } from "./checkHealth";
import { Facts } from "./Facts";
import { type Finding, findings } from "./health";
import css from "./operations.module.css";
import { useRefresh } from "./refresh";
import { Work } from "./Work";

const SECONDS = 10;
const STATES = { problem: "Problem", warning: "Warning", ok: "OK" };

export function Health() {
  const { server, may } = useApp();
  const admin = may("admin") && !server.me?.user && !server.me?.agent;
  const check = useLoad((signal) => checkHealth(admin, signal), [admin]);
  useRefresh(check, SECONDS);
  if (!check.data) return <Loading label="Checking" />;
  const { trouble, status, error, at } = check.data;
  const list = findings({ trouble, status, model: server.model, needsKey: server.needs_key, now: Date.parse(at) });
  const problemCount = list.filter((finding) => finding.state !== "ok").length;
  return (
    <>
      <div className="toolbar">
        <p role="status">
          {problemCount
            ? `${problemCount} ${problemCount === 1 ? "item needs" : "items need"} attention.`
            : "No problems found."}
        </p>
        <p className="quiet">
          Checked at {moment(at)}; checked again every {SECONDS} s.
        </p>
        <button type="button" onClick={check.reload}>
          Check now
        </button>
      </div>
      <ul className={css.findings} aria-label="Findings">
        {list.map((finding) => (
          <FindingRow key={finding.subject + finding.detail} finding={finding} />
        ))}
      </ul>
      {error && trouble !== undefined ? <Failure error={error} retry={check.reload} /> : null}
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
                ["Schema", status.schema_version],
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

function FindingRow({ finding }: { finding: Finding }) {
  return (
    <li className={css.finding}>
      <span className={finding.state === "problem" ? "chip bad" : finding.state === "warning" ? "chip warn" : "chip"}>
        {STATES[finding.state]}
      </span>
      <p>
        <b>{finding.subject}</b>: {finding.detail}
        {finding.todo && <span className="quiet"> {finding.todo}</span>}
      </p>
    </li>
  );
}

/** The number of rows of each table. */
function Rows({ rows }: { rows: Record<string, number> }) {
  return (
    <section className="card" aria-label="Rows">
      <h2>Rows</h2>
      <dl className={css.rows}>
        {Object.entries(rows)
          .sort(([, first], [, other]) => other - first)
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
