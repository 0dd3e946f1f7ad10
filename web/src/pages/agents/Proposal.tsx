// One proposal: the proposed text, its source entries, and the decision, which can be undone.
import { useState } from "react";
import type { Consolidation, Entry } from "../../api";
import { get, Problem, post } from "../../api/client";
import { useLoad } from "../../api/load";
import { useWho } from "../../app/who";
import { Link } from "../../ui/Link";
import { Failure, Loading } from "../../ui/states";
import { Time } from "../../ui/time";
import { say } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";
import { place } from "./places";

type Shown = { proposal: Consolidation; scope: Scope; took: (now: Consolidation) => void };
const FEW = 4;
type Deed = "accept" | "refuse" | "undo";
const WORDS = {
  proposed: "Waiting",
  accepted: "Accepted",
  refused: "Refused",
  undone: "Undone",
  passed: "Skipped",
};
const DEEDS: Record<Consolidation["status"], [Deed, string][]> = {
  proposed: [
    ["refuse", "Refuse"],
    ["accept", "Accept"],
  ],
  accepted: [["undo", "Undo"]],
  refused: [["accept", "Accept after all"]],
  undone: [["accept", "Accept after all"]],
  passed: [],
};

export function Proposal({ proposal, scope, took }: Shown) {
  const { may } = useWho();
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<{ deed: Deed; error: unknown }>();
  const act = async (deed: Deed) => {
    setBusy(true);
    setFailed(undefined);
    try {
      took(await decide(deed, proposal.id, scope));
      if (deed === "accept") say("Saved as a core entry.");
    } catch (error) {
      setFailed({ deed, error });
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
          <span className="chip" title="Who wrote its sources; of several, the least trusted">
            {proposal.source}
          </span>
          <span>{proposal.model === "extractive" || !proposal.model ? "by a rule" : `by ${proposal.model}`}</span>
          {proposal.status !== "proposed" && (
            <span className={proposal.status === "accepted" ? "chip accent" : "chip"}>
              {WORDS[proposal.status]} {proposal.decided_at && <Time at={proposal.decided_at} />}
            </span>
          )}
          {proposal.entry_id && (
            <Link href={place(proposal.agent, "memory", { entry: proposal.entry_id })}>the core entry</Link>
          )}
        </p>
      </div>
      <Sources ids={proposal.sources} scope={scope} />
      {failed ? <Failure error={failed.error} retry={() => act(failed.deed)} /> : null}
      {may("write") && DEEDS[proposal.status].length > 0 && (
        <footer className="actions">
          {DEEDS[proposal.status].map(([deed, label]) => (
            <button
              key={deed}
              type="button"
              className={deed === "accept" ? "primary" : undefined}
              disabled={busy}
              onClick={() => act(deed)}
            >
              {label}
            </button>
          ))}
        </footer>
      )}
    </article>
  );
}

function decide(deed: Deed, id: string, query: Scope): Promise<Consolidation> {
  const said = { path: { id }, query };
  if (deed === "accept") return post("/api/consolidations/{id}/accept", said);
  if (deed === "refuse") return post("/api/consolidations/{id}/refuse", said);
  return post("/api/consolidations/{id}/undo", said);
}

/** The entries that a proposal was made of, as they are now. */
function Sources({ ids, scope }: { ids: string[]; scope: Scope }) {
  const [all, setAll] = useState(ids.length <= FEW);
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
      {!sources.data && sources.loading && <Loading what="Loading its sources" />}
      <ul className={css.sources}>
        {sources.data?.slice(0, all ? ids.length : FEW).map((entry, at) => (
          <li key={ids[at]}>
            {entry ? (
              <>
                <p className={css.entryText}>{entry.content}</p>
                <p className="quiet">
                  <Time at={entry.created_at} />, {entry.source}
                </p>
              </>
            ) : (
              <p className="quiet">An entry that is gone.</p>
            )}
          </li>
        ))}
      </ul>
      {!all && (
        <button type="button" className="link" onClick={() => setAll(true)}>
          Show all {ids.length}
        </button>
      )}
    </div>
  );
}
