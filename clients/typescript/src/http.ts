// Requests: headers, retries, timeouts and streams of events.
import { MemoristError, toError, unreachableError } from "./errors.js";
import type { Owner } from "./types.js";

export type MemoristOptions = {
  /** The address of the server, such as http://127.0.0.1:7700. */
  url: string;
  /** The API key. Default: the environment variable MEMORIST_KEY, where there is one. */
  apiKey?: string | undefined;
  /** Timeout of a request in milliseconds. Default: 30000. */
  timeout?: number | undefined;
  /** For how many milliseconds after a temporary failure a request is sent again. Default: 15000; 0 for never. */
  retryFor?: number | undefined;
  /** Replaces the global fetch. */
  fetch?: typeof fetch | undefined;
};

export type HttpRequest = {
  method: string;
  /** The path, and parameters of the query that are already encoded. */
  path: string;
  owner?: Owner;
  query?: Record<string, unknown>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Seconds for which the server may wait before it answers, in addition to the timeout. */
  waitSeconds?: number;
  /** False for a request that must not be sent again if it may have happened. Default: true. */
  isRepeatable?: boolean;
};

export type HttpResponse = { status: number; headers: Headers; bytes: ArrayBuffer };

export type ServerEvent = { id: number; event: string; data: Record<string, unknown> };

/** The global `process`, which browsers do not have. */
type WithProcess = { process?: { env: Record<string, string | undefined> } };

const MAX_PAUSE_SECONDS = 5; // in addition to Retry-After
const MAX_SILENCE_MS = 60_000; // of a stream, which sends a heartbeat every few seconds
const RETRIED_STATUSES = [429, 503];
const CONTENT_TYPES = ["application/json", "application/octet-stream", "application/jsonl", ""];

export class Http {
  readonly url: string;
  readonly #retryFor: number;
  readonly #timeout: number;
  readonly #apiKey: string;
  readonly #fetch: typeof fetch;

  constructor(options: MemoristOptions) {
    if (!/^https?:\/\/[^/]/.test(options.url)) {
      throw new TypeError(`url: must begin with http:// or https:// and name a server, not "${options.url}".`);
    }
    this.url = options.url.replace(/\/+$/, "");
    this.#retryFor = options.retryFor ?? 15_000;
    this.#timeout = options.timeout ?? 30_000;
    this.#apiKey = options.apiKey ?? (globalThis as WithProcess).process?.env.MEMORIST_KEY ?? "";
    if (!/^[\x20-\x7e]*$/.test(this.#apiKey)) {
      throw new TypeError("apiKey: contains characters that are not valid in a key; copy it again.");
    }
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Send a request, retry it after a temporary failure, and return the response. */
  async send(request: HttpRequest): Promise<HttpResponse> {
    const init = this.#init(request);
    const retries = this.retries();
    for (;;) {
      let response: HttpResponse;
      try {
        response = await this.#attempt(request, init);
      } catch (error) {
        request.signal?.throwIfAborted();
        const failure = noAnswer(this.url, error);
        if (request.isRepeatable === false) throw failure;
        await pause(retries.secondsBefore(failure), request.signal);
        continue;
      }
      if (response.status < 200 || response.status >= 300) {
        const failure = toError(response.status, response.headers, new TextDecoder().decode(response.bytes));
        const mayHaveHappened = failure.code === "in-doubt" && request.isRepeatable === false;
        if (mayHaveHappened || !RETRIED_STATUSES.includes(failure.status)) throw failure;
        await pause(retries.secondsBefore(failure), request.signal);
        continue;
      }
      const contentType = (response.headers.get("content-type") ?? "").split(";")[0] ?? "";
      if (!CONTENT_TYPES.includes(contentType.trim())) {
        throw unreachableError(this.url, `is not a memorist server: it sent ${contentType}`);
      }
      return response;
    }
  }

  /** The events of a stream. Throws an error with the code `no-server` if the stream breaks off. */
  async *events(request: HttpRequest): AsyncGenerator<ServerEvent> {
    const silence = new Timeout(request.signal);
    const init = { ...this.#init(request), signal: silence.signal };
    silence.restart(this.#timeout);
    try {
      const response = await this.#fetch(this.#address(request), init);
      if (!response.ok) throw toError(response.status, response.headers, await response.text());
      if (!response.body) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = eventParser();
      for (;;) {
        silence.restart(MAX_SILENCE_MS);
        const { done, value } = await reader.read();
        if (done) return;
        silence.stop(); // the reader of the events may take its time
        yield* parse(value);
      }
    } catch (error) {
      request.signal?.throwIfAborted();
      throw error instanceof MemoristError ? error : noAnswer(this.url, error);
    } finally {
      silence.stop();
      silence.abort(); // closes the connection if the caller stopped reading
    }
  }

  /** The retries of one request. */
  retries(): Retries {
    return new Retries(this.#retryFor);
  }

  async #attempt(request: HttpRequest, init: RequestInit): Promise<HttpResponse> {
    const timeout = new Timeout(request.signal);
    timeout.restart(this.#timeout + (request.waitSeconds ?? 0) * 1000);
    try {
      const response = await this.#fetch(this.#address(request), { ...init, signal: timeout.signal });
      return { status: response.status, headers: response.headers, bytes: await response.arrayBuffer() };
    } finally {
      timeout.stop();
    }
  }

  #init(request: HttpRequest): RequestInit & { headers: Record<string, string> } {
    const headers: Record<string, string> = { ...ownerHeaders(request.owner), ...request.headers };
    if (this.#apiKey) headers.Authorization = `Bearer ${this.#apiKey}`;
    const init = { method: request.method, headers, redirect: "manual" as const };
    if (request.body === undefined) return init;
    if (request.body instanceof Blob || request.body instanceof Uint8Array) {
      headers["Content-Type"] = (request.body instanceof Blob && request.body.type) || "application/octet-stream";
      return { ...init, body: request.body as BodyInit };
    }
    headers["Content-Type"] = "application/json";
    return { ...init, body: JSON.stringify(request.body) };
  }

  #address(request: HttpRequest): string {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...request.query, ...ownerQuery(request.owner) })) {
      const text = queryValue(value);
      if (text !== undefined) parameters.set(name, text);
    }
    const separator = request.path.includes("?") ? "&" : "?";
    return this.url + request.path + (parameters.size ? separator + parameters : "");
  }
}

/** The pauses between the attempts of a request, for some time after its first failure. */
export class Retries {
  readonly #milliseconds: number;
  #end: number | undefined;
  #attempt = 0;

  constructor(milliseconds: number) {
    this.#milliseconds = milliseconds;
  }

  /** The seconds before the next attempt: those that the server asks for, and some by chance, more each time.
   *
   * Throws the failure if the time is over, or would be.
   */
  secondsBefore(failure: MemoristError): number {
    const now = performance.now();
    this.#end ??= now + this.#milliseconds;
    const secondsLeft = (this.#end - now) / 1000;
    const retryAfter = failure.retryAfter ?? (failure.status ? 1 : 0);
    if (secondsLeft <= retryAfter) throw failure;
    const jitter = Math.min(0.1 * 4 ** this.#attempt, MAX_PAUSE_SECONDS) * (0.5 + Math.random() / 2);
    this.#attempt += 1;
    return Math.min(retryAfter + jitter, secondsLeft);
  }

  /** Begin anew after progress. */
  reset(): void {
    this.#end = undefined;
    this.#attempt = 0;
  }
}

/** A signal that aborts after some time without a restart, or with another signal. */
class Timeout {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.signal = signal ? AbortSignal.any([signal, this.#controller.signal]) : this.#controller.signal;
  }

  restart(milliseconds: number): void {
    this.stop();
    const expire = () => this.#controller.abort(new Error(`no response within ${milliseconds / 1000} s`));
    this.#timer = setTimeout(expire, milliseconds);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  abort(): void {
    this.#controller.abort();
  }
}

const isHeaderSafe = (name: string) => /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(name);

function ownerHeaders({ user, agent }: Owner = {}): Record<string, string> {
  const headers: Record<string, string> = {};
  if (user !== undefined && isHeaderSafe(user)) headers["X-Memorist-User"] = user;
  if (agent !== undefined && isHeaderSafe(agent)) headers["X-Memorist-Agent"] = agent;
  return headers;
}

/** The user and the agent as parameters, if a header cannot carry their names. */
function ownerQuery({ user, agent }: Owner = {}): Owner {
  const query: Owner = {};
  if (user !== undefined && !isHeaderSafe(user)) query.user = user;
  if (agent !== undefined && !isHeaderSafe(agent)) query.agent = agent;
  return query;
}

function queryValue(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value) && value.every(Number.isInteger) && value.length === 2) return value.join("-"); // lines
  if (Array.isArray(value)) return value.length ? JSON.stringify(value) : undefined;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function noAnswer(url: string, error: unknown): MemoristError {
  let reason = String(error);
  if (error instanceof Error) reason = error.cause instanceof Error ? error.cause.message : error.message;
  return unreachableError(url, `does not answer: ${reason}`);
}

/** Wait for some seconds, or until the signal is aborted. */
export function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const finish = () => {
      signal?.removeEventListener("abort", cancel);
      resolve();
    };
    const timer = setTimeout(finish, seconds * 1000);
    signal?.addEventListener("abort", cancel, { once: true });
  });
}

/** Return a function that takes the next piece of a stream and returns the events that are complete. */
function eventParser(): (piece: string) => ServerEvent[] {
  let rest = "";
  let fields: Record<string, string> = {};
  return (piece) => {
    const events: ServerEvent[] = [];
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line) {
        const colon = line.indexOf(": ");
        fields[line.slice(0, colon)] = line.slice(colon + 2);
      } else if (fields.event) {
        events.push({ id: Number(fields.id), event: fields.event, data: JSON.parse(fields.data ?? "{}") });
        fields = {};
      }
    }
    return events;
  };
}
