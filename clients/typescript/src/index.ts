// The client: `new Retain({ url, apiKey }).scope({ user, agent })` has the verbs of the Python library.
import { Api } from "./api.js";
import { errorOfEvent, RetainError, unreachableError } from "./errors.js";
import { Http, isTemporary, type RetainOptions } from "./http.js";
import type { paths, Reply } from "./schema.js";
import type { ChatEvent, ChatOptions, InputOf, Method, OutputOf, Owner, PathWith, RequestOptions } from "./types.js";
import { ScopeVerbs } from "./verbs.js";

export { type ErrorCode, RetainError } from "./errors.js";
export type { RetainOptions } from "./http.js";
export { type Page, Pages } from "./pages.js";
export type * from "./schema.js";
export type * from "./types.js";
export * from "./verbs.js";

/** Statuses after which a turn is resumed: its key protects it. 0 is a server that does not answer. */
const RESUMED_STATUSES = [0, 429, 502, 503, 504];

/** A connection to a retain server. */
export class Retain {
  readonly #http: Http;

  constructor(options: RetainOptions) {
    this.#http = new Http(options);
  }

  /** The memory of a user and an agent, in the tenant of the API key. */
  scope(owner: Owner = {}): Scope {
    return new Scope(new Api(this.#http, owner));
  }

  /** Send any request of the API that is not a verb, such as `request("get", "/api/status")`.
   *
   * A write is sent again only if the server rejected it (429, 503): without an answer, it may have happened.
   */
  request<M extends Method, P extends PathWith<M>>(
    method: M,
    path: P,
    parameters: Partial<InputOf<paths[P][M]>> & RequestOptions = {},
  ): Promise<OutputOf<paths[P][M]>> {
    const fields: RequestOptions & Record<string, unknown> = { ...parameters };
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = encodeURIComponent(String(fields[name]));
      delete fields[name];
      return value;
    });
    const api = new Api(this.#http, {});
    if (method === "get") return api.read("GET", filled, fields);
    return api.write(method.toUpperCase(), filled, fields, { isRepeatable: false });
  }
}

/** The memory of a user and an agent: the kinds of memory, and the verbs over all of them. */
export class Scope extends ScopeVerbs {
  /** Run one turn with an agent and return its answer. */
  async chat(message: string, options: ChatOptions = {}): Promise<Reply> {
    let reply: Reply | undefined;
    for await (const { event, data } of this.chatStream(message, options)) {
      if (event === "message") reply = data;
    }
    if (!reply) throw unreachableError(this.api.http.url, "ended the turn without an answer");
    return reply;
  }

  /** Run one turn and yield its events as they happen; a stream that breaks off is resumed.
   *
   * If the server stops during the turn, another server restarts the answer and sends a new `start` event.
   * In a group, an agent that fails sends an `error` event. If no agent answers, the first error is thrown at the end.
   */
  async *chatStream(message: string, options: ChatOptions = {}): AsyncGenerator<ChatEvent, void> {
    const { session, agents, images, signal } = options;
    const { user, agent } = this.api.owner;
    const key = options.key ?? crypto.randomUUID();
    const body = { message, session_id: session, user, agent_id: agents ? undefined : agent, key, agents, images };
    const start = { method: "POST", path: "/api/chat", body: { ...body, stream: true } };
    let firstError: RetainError | undefined;
    let isAnswered = false;
    let resumePath = "";
    let lastId = 0;
    let retriesLeft = this.api.http.retries;
    let restartsLeft = this.api.http.retries; // a new event does not reset it
    for (;;) {
      let failure: RetainError | undefined;
      const request = resumePath ? { method: "GET", path: resumePath, owner: this.api.owner } : start;
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId) headers["Last-Event-ID"] = String(lastId);
      try {
        for await (const { id, ...parsed } of this.api.http.events({ ...request, headers, signal })) {
          if (parsed.event === "done") {
            if (firstError && !isAnswered) throw firstError;
            return;
          }
          if (id > lastId) retriesLeft = this.api.http.retries;
          lastId = id;
          const event = parsed as unknown as ChatEvent;
          if (event.event === "start") resumePath = event.data.resume;
          if (event.event === "message") isAnswered = true;
          if (event.event === "error") {
            const error = errorOfEvent(event.data);
            if (error.code === "overloaded" && !agents && restartsLeft) {
              // The server is shutting down. The same request with the same key continues the turn at another one.
              restartsLeft -= 1;
              start.body.session_id = event.data.session_id;
              resumePath = "";
              lastId = 0;
              failure = error;
              break;
            }
            firstError ??= error;
          }
          yield event;
          options.signal?.throwIfAborted(); // further events may have arrived already
        }
        if (!failure) throw unreachableError(this.api.http.url, "closed the stream before the end of the answer");
      } catch (error) {
        if (!(error instanceof RetainError) || error === firstError) throw error;
        if (!retriesLeft || !isTemporary(error, RESUMED_STATUSES)) throw error;
        failure = error;
        retriesLeft -= 1;
      }
      await this.api.http.backOff(Math.min(retriesLeft, restartsLeft), failure, signal);
    }
  }
}
