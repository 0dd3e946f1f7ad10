// One health check of the server: readiness and status. It has a short timeout, so that a server that hangs does not leave
// the last good result on the page.
import { get, once, Problem, unreachable } from "../../api/client";
import type { Status } from "../../api/index";

export type Looked = { trouble: string | undefined; status: Status | undefined; error: unknown; at: string };

/** A server that is well says so at once. */
export const PATIENCE = 8;
/** Counting what is in a large database takes longer. */
const FOR_STATUS = 60;

/** Everything that can be asked; what cannot be had is no reason to show nothing. */
export async function look(admin: boolean, signal: AbortSignal): Promise<Looked> {
  const trouble = await within(PATIENCE, signal, (soon) => once("/readyz", { signal: soon })).then(
    () => "",
    (error) => (error instanceof Problem && error.status ? error.detail : undefined),
  );
  const seen: Looked = { trouble, status: undefined, error: null, at: new Date().toISOString() };
  if (!admin || trouble === undefined) return seen;
  return within(FOR_STATUS, signal, (soon) => get("/api/status", { signal: soon })).then(
    (status) => ({ ...seen, status }),
    (error: unknown) => ({ ...seen, error }),
  );
}

/** Ask, and be told that nobody answers after so many seconds. */
async function within<T>(seconds: number, signal: AbortSignal, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
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
