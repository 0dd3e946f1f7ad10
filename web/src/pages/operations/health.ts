// Problems of the server and their remedies, as in `memorist doctor`, derived from the server's status.
import type { Status } from "../../api/index";

export type Finding = { state: "problem" | "warning" | "ok"; subject: string; detail: string; todo: string };
export type HealthInput = {
  /** The problem reported by /readyz, "" if ready; undefined without a response. */
  trouble: string | undefined;
  status: Status | undefined;
  model: string | null;
  needsKey: boolean;
  now: number;
};

/** A vector pending for longer than this is a problem. */
export const LONG_LAG = 60;
/** A worker that has not run for longer than this is a problem. */
export const LONG_IDLE = 600;
const ORDER = { problem: 0, warning: 1, ok: 2 };

/** All findings, worst first. */
export function findings({ trouble, status, model, needsKey, now }: HealthInput): Finding[] {
  const list: Finding[] = [ready(trouble)];
  if (status) list.push(...embedding(status), ...work(status, now));
  list.push(
    model === null
      ? finding(
          "warning",
          "Model",
          "none is set",
          "Set model (and base_url, api_key). Without a model, chat answers only quote from memory.",
        )
      : finding("ok", "Model", model),
    needsKey
      ? finding("ok", "Keys", "required")
      : finding("ok", "Keys", "none: anyone on this machine has access", "Once a key exists, everyone needs one."),
  );
  return list.sort((first, second) => ORDER[first.state] - ORDER[second.state]);
}

const finding = (state: Finding["state"], subject: string, detail: string, todo = ""): Finding => ({
  state,
  subject,
  detail,
  todo,
});

function ready(trouble: string | undefined): Finding {
  if (trouble === undefined) {
    return finding("problem", "Server", "it does not answer", "Check that memorist serve is running; see its log.");
  }
  if (trouble) return finding("problem", "Database", trouble, "See the server’s log, or run memorist doctor.");
  return finding("ok", "Database", "it can be reached, and has the schema of this version");
}

function embedding({ embedder, vectors }: Status): Finding[] {
  if (embedder.startsWith("unavailable: ")) {
    const todo = "Check embedder, embedding_base_url and its key. Until then, search uses keywords only.";
    return [finding("problem", "Embedder", embedder, todo)];
  }
  const { pending = 0, embedding_lag_seconds: seconds = 0 } = vectors;
  if (embedder === "none") return [finding("ok", "Embedder", "none: search uses keywords only")];
  if (!pending) return [finding("ok", "Embedder", `${embedder}; no vectors pending`)];
  const detail = `${embedder}; ${pending === 1 ? "1 text" : `${pending} texts`} without a vector, the oldest for ${seconds} s`;
  return seconds > LONG_LAG
    ? [
        finding(
          "warning",
          "Embedder",
          detail,
          "Vectors are delayed; see the server’s log. To compute them now: memorist jobs --all-tenants",
        ),
      ]
    : [finding("ok", "Embedder", detail)];
}

/** Due jobs that no worker has processed for long. */
function work({ work: due, worked_at, started_at }: Status, now: number): Finding[] {
  const jobs = Object.values(due).reduce((sum, amount) => sum + amount, 0);
  if (!jobs) return [finding("ok", "Due work", "none")];
  const last = worked_at ?? started_at;
  const idle = last ? (now - Date.parse(last)) / 1000 : 0;
  const detail = `${jobs} to do`;
  if (idle <= LONG_IDLE) return [finding("ok", "Due work", detail)];
  const todo = "No jobs have run for a while; see the server’s log. To run them now: memorist jobs --all-tenants";
  return [finding("warning", "Due work", detail, todo)];
}
