// Typed API calls: types come from the OpenAPI document, safe requests are retried, and failures are readable Problems.
import type { paths } from "./schema";

type Method = "get" | "put" | "post" | "patch" | "delete";
type Operation<M extends Method, P extends keyof paths> = paths[P] extends { [K in M]: infer O } ? O : never;
export type PathOf<M extends Method> = {
  [P in keyof paths]: Operation<M, P> extends { responses: unknown } ? P : never;
}[keyof paths];
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : Record<string, never>;
type NamesOf<O> = O extends { parameters: { path: infer N } } ? { path: N } : { path?: never };
type BodyOf<O> = O extends { requestBody?: infer R }
  ? NonNullable<R> extends { content: { "application/json": infer B } }
    ? B
    : never
  : never;
type AnswerOf<O> = O extends { responses: infer R }
  ? {
      [S in keyof R]: S extends 200 | 201
        ? R[S] extends { content: { "application/json": infer A } }
          ? A
          : undefined
        : never;
    }[keyof R]
  : never;
export type Said<O> = NamesOf<O> & {
  query?: Partial<QueryOf<O>> & { user?: string; agent?: string };
  body?: BodyOf<O>;
  signal?: AbortSignal;
  ifMatch?: number;
};

/** A failure: what the server said of it, or that it could not be reached. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly type = "",
    readonly field: string | null = null,
    readonly requestId = "",
    readonly retryAfter = 0,
  ) {
    super(detail);
  }

  /** True if the same request may succeed later: there was no response, or a temporary failure. */
  get passing(): boolean {
    return PASSING.has(this.status);
  }
}

const PASSING = new Set([0, 429, 502, 503, 504]); // 502 and 504 are a proxy's words for a server that restarts
const TRIES = 3;
const UNREACHABLE = "The server does not answer. Is it running? What you wrote is still here.";
const BROKEN_OFF = "The server’s answer broke off. Try again.";
const SIGNED_OUT = "You are signed out. Sign in, then try again.";
let csrf: string | null = null;
let signedOut: (problem: Problem) => Promise<boolean> = async () => false;

/** Set the CSRF token of all writes and the callback for an expired sign-in, which returns true to retry. */
export function signIn(token: string | null, whenSignedOut: (problem: Problem) => Promise<boolean>): void {
  csrf = token;
  signedOut = whenSignedOut;
}

export const get = <P extends PathOf<"get">>(path: P, said?: Said<Operation<"get", P>>) => call("get", path, said);
export const put = <P extends PathOf<"put">>(path: P, said?: Said<Operation<"put", P>>) => call("put", path, said);
export const post = <P extends PathOf<"post">>(path: P, said?: Said<Operation<"post", P>>) => call("post", path, said);
export const patch = <P extends PathOf<"patch">>(path: P, said?: Said<Operation<"patch", P>>) =>
  call("patch", path, said);
export const remove = <P extends PathOf<"delete">>(path: P, said?: Said<Operation<"delete", P>>) =>
  call("delete", path, said);

async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  said: Said<Operation<M, P>> = {} as Said<Operation<M, P>>,
): Promise<AnswerOf<Operation<M, P>>> {
  const headers: Record<string, string> = said.body === undefined ? {} : { "Content-Type": "application/json" };
  if (said.ifMatch !== undefined) headers["If-Match"] = `"${said.ifMatch}"`;
  const body = said.body === undefined ? undefined : JSON.stringify(said.body);
  const where = address(path as string, said.path as Record<string, unknown> | undefined, said.query);
  const how = { method: method.toUpperCase(), headers, body, signal: said.signal };
  const ask = () => patient(where, how);
  if (method === "get") return (await ask()) as AnswerOf<Operation<M, P>>;
  return (await meant(`${method} ${where} ${said.ifMatch} ${body}`, (key) => {
    headers["Idempotency-Key"] = key;
    return ask();
  })) as AnswerOf<Operation<M, P>>;
}

const UNSURE_FOR = 600_000;
const unsure = new Map<string, { key: string; at: number }>();

/** Do a change with its idempotency key. Where nobody knows whether it was done, whoever asks for the very same next means
 * the same one, and it has the same key: "Try again" never makes a second. */
async function meant<T>(change: string, act: (key: string) => Promise<T>): Promise<T> {
  const before = unsure.get(change);
  const key = before && Date.now() - before.at < UNSURE_FOR ? before.key : crypto.randomUUID();
  try {
    const answer = await act(key);
    unsure.clear(); // whoever has done something else since, and asks again, means it once more
    return answer;
  } catch (error) {
    if (error instanceof Problem && error.status >= 400 && error.status < 500) unsure.delete(change);
    else unsure.set(change, { key, at: Date.now() });
    throw error;
  }
}

/** An address with its names and its query filled in; what is null or undefined is left out. */
export function address(path: string, names: Record<string, unknown> = {}, query: object = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(names[name])));
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") asked.set(name, String(value));
  }
  return asked.size ? `${filled}?${asked}` : filled;
}

/** Fetch, again where nobody answered: a change is sent with the same idempotency key, so it happens once. */
async function patient(where: string, how: RequestInit): Promise<unknown> {
  for (let tried = 1; ; tried++) {
    try {
      return await read(await fetched(where, how), how.signal);
    } catch (error) {
      if (!(error instanceof Problem) || !error.passing || tried >= TRIES) throw error;
      await pause(Math.min(error.retryAfter || 0.3 * tried, 2), how.signal ?? undefined);
    }
  }
}

/** Read the body of a response; a broken or foreign one counts as no response. */
async function read(answer: Response, signal?: AbortSignal | null): Promise<unknown> {
  try {
    const text = await answer.text();
    return text ? JSON.parse(text) : undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "No answer", BROKEN_OFF);
  }
}

/** One fetch; an answer that is no success is a Problem. Whoever was signed out meanwhile can sign in, and it goes on. */
export const fetched = (where: string, how: RequestInit = {}) => signedIn(() => once(where, how));

/** Ask; whoever was signed out meanwhile can sign in, and is asked for once more. */
export async function signedIn<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Problem) || !shutOut(error)) throw error;
    if (await signedOut(error)) return ask();
    throw error.status === 401 ? new Problem(401, error.title, SIGNED_OUT, error.type) : error;
  }
}

/** True if a request was rejected because the sign-in has expired or changed. */
const shutOut = (problem: Problem) =>
  problem.status === 401 || (problem.status === 403 && problem.detail.includes("X-Retain-CSRF"));

/** The headers that say that a change comes from this page. */
export const proof = (): [string, string][] => (csrf ? [["X-Retain-CSRF", csrf]] : []);
/** Nobody answered. */
export const unreachable = () => new Problem(0, "No answer", UNREACHABLE);

/** One fetch by whoever one is now. */
export async function once(where: string, how: RequestInit = {}): Promise<Response> {
  const headers = new Headers(how.headers);
  if (how.method && how.method !== "GET") for (const [name, value] of proof()) headers.set(name, value);
  let answer: Response;
  try {
    answer = await fetch(where, { ...how, headers, credentials: "same-origin" });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    throw unreachable();
  }
  if (answer.ok) return answer;
  throw problemOf(answer.status, await answer.text().catch(() => ""), answer.headers.get("Retry-After"));
}

/** The problem in an error response, which may come from a proxy and have any format. */
export function problemOf(status: number, text: string, retryAfter: string | null): Problem {
  const said = objectIn(text);
  const word = (name: string, otherwise = "") => (typeof said[name] === "string" ? (said[name] as string) : otherwise);
  const detail = word("detail", status > 501 && status < 505 ? UNREACHABLE : `The server answered ${status}.`);
  const field = word("field") || null;
  return new Problem(
    status,
    word("title", "Failed"),
    detail,
    word("type"),
    field,
    word("request_id"),
    Number(retryAfter) || 0,
  );
}

function objectIn(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Wait so many seconds, or until it is called off. */
export function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    if (signal?.aborted) return fail(signal.reason);
    const off = () => {
      clearTimeout(timer);
      fail(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", off);
      done();
    }, seconds * 1000);
    signal?.addEventListener("abort", off, { once: true });
  });
}

/** The message to show for any failure. */
export function told(error: unknown): string {
  if (error instanceof Problem) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
