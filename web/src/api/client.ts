// Typed API calls: types come from the OpenAPI document, safe requests are retried, and failures are readable Problems.
import type { paths } from "../../../clients/typescript/src/schema";

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
export type RequestOptions<O> = NamesOf<O> & {
  query?: Partial<QueryOf<O>> & { user?: string; agent?: string };
  body?: BodyOf<O>;
  signal?: AbortSignal;
  ifMatch?: number;
};

/** A failed request: the error of the server, or an unreachable server. */
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
  get temporary(): boolean {
    return TEMPORARY_STATUSES.has(this.status);
  }
}

const TEMPORARY_STATUSES = new Set([0, 429, 502, 503, 504]); // a proxy answers 502 or 504 while the server restarts
const MAX_ATTEMPTS = 3;
const UNREACHABLE = "The server does not answer. Is it running? What you wrote is still here.";
const BROKEN_OFF = "The connection was lost during the server’s answer. Try again.";
const SIGNED_OUT = "You are signed out. Sign in, then try again.";
let csrf: string | null = null;
let signedOut: (problem: Problem) => Promise<boolean> = async () => false;

/** Set the CSRF token of all writes and the callback for an expired sign-in, which returns true to retry. */
export function signIn(token: string | null, whenSignedOut: (problem: Problem) => Promise<boolean>): void {
  csrf = token;
  signedOut = whenSignedOut;
}

export const get = <P extends PathOf<"get">>(path: P, options?: RequestOptions<Operation<"get", P>>) =>
  call("get", path, options);
export const put = <P extends PathOf<"put">>(path: P, options?: RequestOptions<Operation<"put", P>>) =>
  call("put", path, options);
export const post = <P extends PathOf<"post">>(path: P, options?: RequestOptions<Operation<"post", P>>) =>
  call("post", path, options);
export const patch = <P extends PathOf<"patch">>(path: P, options?: RequestOptions<Operation<"patch", P>>) =>
  call("patch", path, options);
export const remove = <P extends PathOf<"delete">>(path: P, options?: RequestOptions<Operation<"delete", P>>) =>
  call("delete", path, options);

async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  options: RequestOptions<Operation<M, P>> = {} as RequestOptions<Operation<M, P>>,
): Promise<AnswerOf<Operation<M, P>>> {
  const headers: Record<string, string> = options.body === undefined ? {} : { "Content-Type": "application/json" };
  if (options.ifMatch !== undefined) headers["If-Match"] = `"${options.ifMatch}"`;
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  const url = address(path as string, options.path as Record<string, unknown> | undefined, options.query);
  const init = { method: method.toUpperCase(), headers, body, signal: options.signal };
  const attempt = () => fetchWithRetry(url, init);
  if (method === "get") return (await attempt()) as AnswerOf<Operation<M, P>>;
  return (await withIdempotencyKey(`${method} ${url} ${options.ifMatch} ${body}`, (key) => {
    headers["Idempotency-Key"] = key;
    return attempt();
  })) as AnswerOf<Operation<M, P>>;
}

const PENDING_KEY_MS = 600_000;
const pendingKeys = new Map<string, { key: string; at: number }>();

/** Send a write with an idempotency key. If its outcome is unknown, the same write uses the same key next time, so that
 * "Try again" never does it twice. */
async function withIdempotencyKey<T>(change: string, request: (key: string) => Promise<T>): Promise<T> {
  const pending = pendingKeys.get(change);
  const key = pending && Date.now() - pending.at < PENDING_KEY_MS ? pending.key : crypto.randomUUID();
  try {
    const answer = await request(key);
    pendingKeys.clear(); // the same write after this success is a new write
    return answer;
  } catch (error) {
    if (error instanceof Problem && error.status >= 400 && error.status < 500) pendingKeys.delete(change);
    else pendingKeys.set(change, { key, at: Date.now() });
    throw error;
  }
}

/** The address with its path parameters and query; empty, null and undefined values are left out. */
export function address(path: string, names: Record<string, unknown> = {}, query: object = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(names[name])));
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  return params.size ? `${filled}?${params}` : filled;
}

/** Fetch with retries after temporary failures. A write keeps its idempotency key, so it happens once. */
async function fetchWithRetry(url: string, init: RequestInit): Promise<unknown> {
  for (let tried = 1; ; tried++) {
    try {
      return await read(await fetchSignedIn(url, init), init.signal);
    } catch (error) {
      if (!(error instanceof Problem) || !error.temporary || tried >= MAX_ATTEMPTS) throw error;
      await pause(Math.min(error.retryAfter || 0.3 * tried, 2), init.signal ?? undefined);
    }
  }
}

/** Read the body of a response; an incomplete body, or one that is not JSON, counts as no response. */
async function read(answer: Response, signal?: AbortSignal | null): Promise<unknown> {
  try {
    const text = await answer.text();
    return text ? JSON.parse(text) : undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "No answer", BROKEN_OFF);
  }
}

/** Fetch once; throw a Problem for an error response. If the sign-in has expired, wait for a new one and repeat. */
export const fetchSignedIn = (url: string, init: RequestInit = {}) => withSignIn(() => fetchOnce(url, init));

/** Run a request; if the sign-in has expired, wait for a new one and run it again. */
export async function withSignIn<T>(attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (!(error instanceof Problem) || !isSignedOut(error)) throw error;
    if (await signedOut(error)) return attempt();
    throw error.status === 401 ? new Problem(401, error.title, SIGNED_OUT, error.type) : error;
  }
}

/** True if a request was rejected because the sign-in has expired or changed. */
const isSignedOut = (problem: Problem) =>
  problem.status === 401 || (problem.status === 403 && problem.detail.includes("X-Memorist-CSRF"));

/** The headers that prove that a write comes from this page. */
export const csrfHeaders = (): [string, string][] => (csrf ? [["X-Memorist-CSRF", csrf]] : []);
/** The problem of a server that does not answer. */
export const unreachable = () => new Problem(0, "No answer", UNREACHABLE);

/** Fetch once with the current sign-in. */
export async function fetchOnce(url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (init.method && init.method !== "GET") for (const [name, value] of csrfHeaders()) headers.set(name, value);
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers, credentials: "same-origin" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unreachable();
  }
  if (answer.ok) return answer;
  throw problemOf(answer.status, await answer.text().catch(() => ""), answer.headers.get("Retry-After"));
}

/** The problem in an error response, which may come from a proxy and have any format. */
export function problemOf(status: number, text: string, retryAfter: string | null): Problem {
  const body = parseObject(text);
  const stringField = (name: string, otherwise = "") =>
    typeof body[name] === "string" ? (body[name] as string) : otherwise;
  const detail = stringField("detail", status > 501 && status < 505 ? UNREACHABLE : `The server answered ${status}.`);
  const field = stringField("field") || null;
  return new Problem(
    status,
    stringField("title", "Failed"),
    detail,
    stringField("type"),
    field,
    stringField("request_id"),
    Number(retryAfter) || 0,
  );
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Wait for some seconds, or until the signal is aborted. */
export function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    if (signal?.aborted) return fail(signal.reason);
    const cancel = () => {
      clearTimeout(timer);
      fail(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancel);
      done();
    }, seconds * 1000);
    signal?.addEventListener("abort", cancel, { once: true });
  });
}

/** The message to show for any failure. */
export function errorMessage(error: unknown): string {
  if (error instanceof Problem) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
