// What is due and not done yet, for each kind of background work, and when somebody last did what was due.
import type { Status } from "../../api/index";
import { count, Time } from "../../ui/time";
import css from "./operations.module.css";

const KINDS: Record<string, [string, string]> = {
  vectors: ["Vectors", "texts that cannot be found by meaning yet"],
  index: ["Index", "tenants whose index is not whole yet"],
  summaries: ["Summaries", "sessions to be summarised"],
  consolidations: ["Consolidations", "agents whose journals fade"],
  retention: ["Retention", "things that are too old to keep"],
};

export function Work({ status }: { status: Status }) {
  return (
    <section className={`card ${css.work}`}>
      <h2>Due work</h2>
      <div className="table">
        <table>
          <thead>
            <tr>
              <th scope="col">Work</th>
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
            This server last did what was due <Time at={status.worked_at} />.
          </>
        ) : (
          "This server has not done any of it yet."
        )}
      </p>
    </section>
  );
}
