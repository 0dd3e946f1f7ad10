// One health check of the server: readiness and status. It has a short timeout, so that a server that hangs does not leave
// the last good result on the page.
import { fetchOnce, get, Problem, unreachable } from "../../api/client";
import type { Status } from "../../api/index";

export type HealthCheck = { trouble: string | undefined; status: Status | undefined; error: unknown; at: string };

/** The timeout of the readiness check, which a healthy server answers at once. */
export const TIMEOUT_SECONDS = 8;
/** The timeout of the status, which counts rows of a large database. */
const FOR_STATUS = 60;

/** Request readiness and status; a failure of one does not hide the other. */
export async function checkHealth(admin: boolean, signal: AbortSignal): Promise<HealthCheck> {
  const trouble = await withTimeout(TIMEOUT_SECONDS, signal, (soon) => fetchOnce("/readyz", { signal: soon })).then(
    () => "",
    (error) => (error instanceof Problem && error.status ? error.detail : undefined),
  );
  const result: HealthCheck = { trouble, status: undefined, error: null, at: new Date().toISOString() };
  if (!admin || trouble === undefined) return result;
  return withTimeout(FOR_STATUS, signal, (soon) => get("/api/status", { signal: soon })).then(
    (status) => ({ ...result, status }),
    (error: unknown) => ({ ...result, error }),
  );
}

/** Run a request with a timeout in seconds. */
async function withTimeout<T>(
  seconds: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), seconds * 1000);
  try {
    return await ask(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    throw late.signal.aborted ? unreachable() : error;
  } finally {
    clearTimeout(timer);
  }
}
