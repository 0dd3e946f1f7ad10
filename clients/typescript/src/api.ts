// Verbs as requests for the memory of one owner.
import type { Http, HttpRequest, HttpResponse } from "./http.js";
import { type Page, Pages } from "./pages.js";
import type { Content, Owner, RequestOptions } from "./types.js";

/** The arguments of a verb, with `signal` and `idempotencyKey`. */
type Arguments = RequestOptions & { [name: string]: unknown };

/** The base of the kinds of memory and of the scope. */
export class Kind {
  protected readonly api: Api;

  constructor(api: Api) {
    this.api = api;
  }
}

export class Api {
  readonly http: Http;
  readonly owner: Owner;

  constructor(http: Http, owner: Owner) {
    this.http = http;
    this.owner = owner;
  }

  async read<T>(method: string, path: string, args: Arguments): Promise<T> {
    return json(await this.send(method, path, args)) as T;
  }

  pages<T>(path: string, args: Arguments): Pages<T> {
    return new Pages((after) => this.read<Page<T>>("GET", path, after === undefined ? args : { ...args, after }));
  }

  async download(path: string, args: Arguments): Promise<Uint8Array> {
    return new Uint8Array((await this.send("GET", path, args)).bytes);
  }

  /** Write with an idempotency key. Pass `isRepeatable: false` if the path ignores the key. */
  async write<T>(method: string, path: string, args: Arguments, { isRepeatable = true } = {}): Promise<T> {
    const headers = { "Idempotency-Key": args.idempotencyKey ?? crypto.randomUUID() };
    return json(await this.send(method, path, args, { headers, isRepeatable })) as T;
  }

  /** Write a large value: text as a field, bytes as the body, with the other arguments in the query. */
  async upload<T>(path: string, field: string, content: Content, args: Arguments): Promise<T> {
    if (typeof content === "string") return this.write("POST", path, { ...args, [field]: content });
    const { signal, idempotencyKey, ...query } = args;
    const headers = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const request = { method: "POST", path, owner: this.owner, query, body: content, headers, signal };
    return json(await this.http.send(request)) as T;
  }

  private send(method: string, path: string, args: Arguments, more: Partial<HttpRequest> = {}): Promise<HttpResponse> {
    const { signal, idempotencyKey: _, ...fields } = args;
    const isInQuery = method === "GET" || method === "DELETE";
    const parameters = isInQuery ? { query: fields } : { body: fields };
    const waitSeconds = typeof fields.wait === "number" ? fields.wait : 0;
    return this.http.send({ ...more, method, path, owner: this.owner, signal, waitSeconds, ...parameters });
  }
}

/** The JSON of a response; undefined if it is empty. */
function json(response: HttpResponse): unknown {
  const text = new TextDecoder().decode(response.bytes);
  return text ? JSON.parse(text) : undefined;
}
