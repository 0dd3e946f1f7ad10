// The inputs and outputs of each operation of the OpenAPI document.
import type { operations, paths, Reply } from "./schema.js";

export type Operation = keyof operations;

type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? OrUnknown<NonNullable<Q>> : unknown;
type PathOf<O> = O extends { parameters: { path: infer P } } ? P : unknown;
type OrUnknown<Q> = [Q] extends [never] ? unknown : Q;
type BodyOf<O> = O extends { requestBody?: infer R } ? JsonOf<NonNullable<R>> : never;
type JsonOf<R> = R extends { content: { "application/json": infer B } } ? B : never;

/** The parameters of a request, wherever it has them. */
export type InputOf<O> = PathOf<O> & ([BodyOf<O>] extends [never] ? QueryOf<O> : BodyOf<O>);

/** The result of a request. */
export type OutputOf<O> = O extends { responses: infer R }
  ? {
      [S in keyof R]: S extends 200 | 201
        ? R[S] extends { content: { "application/json": infer A } }
          ? A
          : Uint8Array
        : S extends 204
          ? // biome-ignore lint/suspicious/noConfusingVoidType: the result of a method without one
            void
          : never;
    }[keyof R]
  : never;

export type Input<N extends Operation> = InputOf<operations[N]>;
export type Output<N extends Operation> = OutputOf<operations[N]>;

/** The keyword arguments of a verb: everything except its positional arguments and the owner. */
export type Options<N extends Operation, Positional extends string = never> = Omit<
  Input<N>,
  Positional | "user" | "agent"
> &
  RequestOptions;

export type Method = "get" | "put" | "post" | "patch" | "delete";

/** The paths of the API that have a method. */
export type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];

export type RequestOptions = {
  /** Cancels the request. */
  signal?: AbortSignal | undefined;
  /** For writes: a repeated call with the same key changes nothing. Each call has its own key by default. */
  idempotencyKey?: string | undefined;
};

/** The user and the agent whose memory is used. The tenant is that of the API key. */
export type Owner = { user?: string | undefined; agent?: string | undefined };

/** The content of a large value: text, or bytes to store as they are. */
export type Content = string | Uint8Array<ArrayBuffer> | Blob;

/** What happens in a turn, in order. The last event is `message`, or `error`. */
export type ChatEvent =
  | { event: "waiting"; data: { session_id: string; key: string; before: number } }
  | {
      event: "start";
      data: { session_id: string; key: string; asked_seq: number; resume: string; agent_id?: string };
    }
  | { event: "text"; data: { text: string; agent_id?: string } }
  | { event: "tool_call"; data: { id: string; name: string; arguments: unknown; agent_id?: string } }
  | { event: "tool_result"; data: { id: string; name: string; ok: boolean; short: string; agent_id?: string } }
  | { event: "message"; data: Reply }
  | {
      event: "error";
      data: { type: string; detail: string; status: number; session_id: string; key: string; agent_id?: string };
    };

export type ChatOptions = {
  /** The session id. Default: the active session, or a new one. */
  session?: string | undefined;
  /** The agents of a group conversation, in the order in which they answer. */
  agents?: string[] | undefined;
  /** Images as data URLs. */
  images?: string[] | undefined;
  /** Idempotency key: a retry with the same key continues the turn. */
  key?: string | undefined;
  signal?: AbortSignal | undefined;
};
