// The client: `new Memorist({ url, apiKey }).scope({ user, agent })` has the verbs of the Python library.
import { Api } from "./api.js";
import { errorOfEvent, MemoristError, unreachableError } from "./errors.js";
import { Http, type MemoristOptions, pause } from "./http.js";
import type { paths, Reply } from "./schema.js";
import type { ChatEvent, ChatOptions, InputOf, Method, OutputOf, Owner, PathWith, RequestOptions } from "./types.js";
import { ScopeVerbs } from "./verbs.js";

export { type ErrorCode, MemoristError } from "./errors.js";
export type { MemoristOptions } from "./http.js";
export { type Page, Pages } from "./pages.js";
export type * from "./schema.js";
export type * from "./types.js";
export * from "./verbs.js";

/** Statuses after which a turn is resumed: its key protects it. 0 is a server that does not answer. */
const RESUMED_STATUSES = [0, 429, 502, 503, 504];

/** A connection to a memorist server. */
export class Memorist {
  readonly #http: Http;

  constructor(options: MemoristOptions) {
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
    let firstError: MemoristError | undefined;
    let isAnswered = false;
    let resumePath = "";
    let lastId = 0;
    const retries = this.api.http.retries();
    const restarts = this.api.http.retries(); // a new event does not reset them
    for (;;) {
      let pauseSeconds: number | undefined;
      const request = resumePath ? { method: "GET", path: resumePath, owner: this.api.owner } : start;
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId) headers["Last-Event-ID"] = String(lastId);
      try {
        for await (const { id, ...parsed } of this.api.http.events({ ...request, headers, signal })) {
          if (parsed.event === "done") {
            if (firstError && !isAnswered) throw firstError;
            return;
          }
          if (id > lastId) retries.reset();
          lastId = id;
          const event = parsed as unknown as ChatEvent;
          if (event.event === "start") resumePath = event.data.resume;
          if (event.event === "message") isAnswered = true;
          if (event.event === "error") {
            const error = errorOfEvent(event.data);
            if (error.code === "overloaded" && !agents) {
              // The server is shutting down. The same request with the same key continues the turn at another one.
              firstError = error; // it ends the turn if the time for restarts is over
              pauseSeconds = restarts.secondsBefore(error);
              firstError = undefined;
              start.body.session_id = event.data.session_id;
              resumePath = "";
              lastId = 0;
              break;
            }
            firstError ??= error;
          }
          yield event;
          options.signal?.throwIfAborted(); // further events may have arrived already
        }
        if (pauseSeconds === undefined) {
          throw unreachableError(this.api.http.url, "closed the stream before the end of the answer");
        }
      } catch (error) {
        if (!(error instanceof MemoristError) || error === firstError) throw error;
        if (!RESUMED_STATUSES.includes(error.status)) throw error;
        pauseSeconds = retries.secondsBefore(error);
      }
      await pause(pauseSeconds, signal);
    }
  }
}
