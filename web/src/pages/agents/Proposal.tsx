// One proposal: the proposed text, its source entries, and the decision, which can be undone.
import { useState } from "react";
import type { Consolidation, Entry } from "../../api";
import { get, Problem, post } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Time } from "../../ui/time";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";
import { agentPath } from "./places";

type Props = { proposal: Consolidation; scope: Scope; onDecided: (now: Consolidation) => void };
const COLLAPSED_SOURCES = 4;
type Decision = "accept" | "refuse" | "undo";
const WORDS = {
  proposed: "Waiting",
  accepted: "Accepted",
  refused: "Refused",
  undone: "Undone",
  passed: "Skipped",
};
const DECISIONS: Record<Consolidation["status"], [Decision, string][]> = {
  proposed: [
    ["refuse", "Refuse"],
    ["accept", "Accept"],
  ],
  accepted: [["undo", "Undo"]],
  refused: [["accept", "Accept after all"]],
  undone: [["accept", "Accept after all"]],
  passed: [],
};

export function Proposal({ proposal, scope, onDecided }: Props) {
  const { may } = useApp();
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<{ decision: Decision; error: unknown }>();
  const decideAndReport = async (decision: Decision) => {
    setBusy(true);
    setFailed(undefined);
    try {
      onDecided(await decide(decision, proposal.id, scope));
      if (decision === "accept") notify("Saved as a core entry.");
    } catch (error) {
      setFailed({ decision, error });
    }
    setBusy(false);
  };
  return (
    <article className={`card ${css.proposal}`} aria-label={`Proposal: ${proposal.content.slice(0, 60) || "skipped"}`}>
      <div>
        <h3>{proposal.content ? "Proposed memory" : "Nothing to keep"}</h3>
        {proposal.content && <p className={css.entryText}>{proposal.content}</p>}
        <p className={css.entryFacts}>
          <Time at={proposal.created_at} />
          <span className="chip" title="The source of the entries; if there are several, the least trusted">
            {proposal.source}
          </span>
          <span>{proposal.model === "extractive" || !proposal.model ? "by a rule" : `by ${proposal.model}`}</span>
          {proposal.status !== "proposed" && (
            <span className={proposal.status === "accepted" ? "chip accent" : "chip"}>
              {WORDS[proposal.status]} {proposal.decided_at && <Time at={proposal.decided_at} />}
            </span>
          )}
          {proposal.entry_id && (
            <Link href={agentPath(proposal.agent, "memory", { entry: proposal.entry_id })}>the core entry</Link>
          )}
        </p>
      </div>
      <Sources ids={proposal.sources} scope={scope} />
      {failed ? <Failure error={failed.error} retry={() => decideAndReport(failed.decision)} /> : null}
      {may("write") && DECISIONS[proposal.status].length > 0 && (
        <footer className="actions">
          {DECISIONS[proposal.status].map(([decision, label]) => (
            <button
              key={decision}
              type="button"
              className={decision === "accept" ? "primary" : undefined}
              disabled={busy}
              onClick={() => decideAndReport(decision)}
            >
              {label}
            </button>
          ))}
        </footer>
      )}
    </article>
  );
}

function decide(decision: Decision, id: string, query: Scope): Promise<Consolidation> {
  const options = { path: { id }, query };
  if (decision === "accept") return post("/api/consolidations/{id}/accept", options);
  if (decision === "refuse") return post("/api/consolidations/{id}/refuse", options);
  return post("/api/consolidations/{id}/undo", options);
}

/** The source entries of a proposal in their current state. */
function Sources({ ids, scope }: { ids: string[]; scope: Scope }) {
  const [expanded, setExpanded] = useState(ids.length <= COLLAPSED_SOURCES);
  const sources = useLoad<(Entry | null)[]>(
    (signal) =>
      Promise.all(
        ids.map((id) =>
          get("/api/entries/{id}", { path: { id }, query: scope, signal }).catch((error) => {
            if (error instanceof Problem && error.status === 404) return null;
            throw error;
          }),
        ),
      ),
    [ids.join()],
  );
  return (
    <div>
      <h3>Based on {ids.length === 1 ? "one entry" : `${ids.length} entries`}</h3>
      {sources.error ? <Failure error={sources.error} retry={sources.reload} /> : null}
      {!sources.data && sources.loading && <Loading label="Loading its sources" />}
      <ul className={css.sources}>
        {sources.data?.slice(0, expanded ? ids.length : COLLAPSED_SOURCES).map((entry, index) => (
          <li key={ids[index]}>
            {entry ? (
              <>
                <p className={css.entryText}>{entry.content}</p>
                <p className="quiet">
                  <Time at={entry.created_at} />, {entry.source}
                </p>
              </>
            ) : (
              <p className="quiet">This entry was deleted.</p>
            )}
          </li>
        ))}
      </ul>
      {!expanded && (
        <button type="button" className="link" onClick={() => setExpanded(true)}>
          Show all {ids.length}
        </button>
      )}
    </div>
  );
}
