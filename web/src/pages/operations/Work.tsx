// The due work of each background job, and the time of the last run.
import type { Status } from "../../api/index";
import { count, Time } from "../../ui/time";
import css from "./operations.module.css";

const KINDS: Record<string, [string, string]> = {
  vectors: ["Vectors", "texts that search by meaning does not cover yet"],
  index: ["Index", "tenants whose search index is incomplete"],
  summaries: ["Summaries", "conversations to summarise"],
  facts: ["Facts", "conversations to learn facts from"],
  consolidations: ["Consolidations", "agents with journal entries to consolidate"],
  webhooks: ["Webhooks", "events that webhooks have not been sent yet"],
  retention: ["Retention", "records older than the retention period"],
};

export function Work({ status }: { status: Status }) {
  return (
    <section className={`card ${css.work}`}>
      <h2>Background jobs</h2>
      <div className="table">
        <table>
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col" className="number">
                Due
              </th>
              <th scope="col">What it is</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(status.work).map(([name, due]) => (
              <tr key={name}>
                <th scope="row">{KINDS[name]?.[0] ?? name}</th>
                <td className="number">{count(due)}</td>
                <td className="quiet">{KINDS[name]?.[1] ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(status.problems ?? []).map((problem) => (
        <p key={problem} role="alert">
          {problem}
        </p>
      ))}
      <p className="quiet">
        {status.worked_at ? (
          <>
            This server last ran jobs <Time at={status.worked_at} />.
          </>
        ) : (
          "This server has not run any jobs yet."
        )}
      </p>
    </section>
  );
}
