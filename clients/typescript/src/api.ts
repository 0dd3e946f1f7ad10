// Verbs as requests for the memory of one owner.
import type { Http, HttpResponse } from "./http.js";
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

  async read<T>(method: string, path: string, named: Arguments): Promise<T> {
    return json(await this.send(method, path, named)) as T;
  }

  pages<T>(path: string, named: Arguments): Pages<T> {
    return new Pages((after) => this.read<Page<T>>("GET", path, after === undefined ? named : { ...named, after }));
  }

  async download(path: string, named: Arguments): Promise<Uint8Array> {
    return new Uint8Array((await this.send("GET", path, named)).bytes);
  }

  async write<T>(method: string, path: string, named: Arguments): Promise<T> {
    const headers = { "Idempotency-Key": named.idempotencyKey ?? crypto.randomUUID() };
    return json(await this.send(method, path, named, headers)) as T;
  }

  /** Write a large value: text as a field, bytes as the body, with the other arguments in the query. */
  async upload<T>(path: string, field: string, content: Content, named: Arguments): Promise<T> {
    if (typeof content === "string") return this.write("POST", path, { ...named, [field]: content });
    const { signal, idempotencyKey, ...query } = named;
    const headers = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const request = { method: "POST", path, owner: this.owner, query, body: content, headers, signal };
    return json(await this.http.send(request)) as T;
  }

  private send(method: string, path: string, named: Arguments, headers = {}): Promise<HttpResponse> {
    const { signal, idempotencyKey: _, ...fields } = named;
    const isInQuery = method === "GET" || method === "DELETE";
    const parameters = isInQuery ? { query: fields } : { body: fields };
    return this.http.send({ method, path, owner: this.owner, headers, signal, ...parameters });
  }
}

/** The JSON of a response; undefined if it is empty. */
function json(response: HttpResponse): unknown {
  const text = new TextDecoder().decode(response.bytes);
  return text ? JSON.parse(text) : undefined;
}
