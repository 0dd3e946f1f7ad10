// Errors: the problem that a server reported (RFC 9457), or a server that does not answer.
import type { ErrorCode } from "./verbs.js";

export type { ErrorCode };

/** A failed request. `code` is the kind of error, such as `not-found`. */
export class MemoristError extends Error {
  override readonly name = "MemoristError";
  readonly code: ErrorCode;
  /** The HTTP status; 0 if the server did not answer. */
  readonly status: number;
  readonly title: string;
  /** What happened, why, and what to do. */
  readonly detail: string;
  /** The field of the request that is wrong, if any. */
  readonly field: string | undefined;
  readonly requestId: string | undefined;
  /** Seconds after which the request may succeed, if the server named them. */
  readonly retryAfter: number | undefined;

  constructor(problem: {
    code: ErrorCode;
    status: number;
    title: string;
    detail: string;
    field?: string | undefined;
    requestId?: string | undefined;
    retryAfter?: number | undefined;
  }) {
    super(problem.detail);
    this.code = problem.code;
    this.status = problem.status;
    this.title = problem.title;
    this.detail = problem.detail;
    this.field = problem.field;
    this.requestId = problem.requestId;
    this.retryAfter = problem.retryAfter;
  }
}

const CODES: Record<number, ErrorCode> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  409: "conflict",
  412: "wrong-version",
  413: "too-large",
  429: "too-many",
  503: "overloaded",
  507: "full",
};

/** The error of a response, which may come from a proxy and have any format. */
export function toError(status: number, headers: Headers, text: string): MemoristError {
  const problem = parseObject(text);
  const textOf = (name: string) => (typeof problem[name] === "string" ? (problem[name] as string) : undefined);
  const location = headers.get("location");
  let detail = textOf("detail") ?? `The server answered ${status}.`;
  if (location && status < 400) detail += ` It redirects to ${location}: use that address for the client.`;
  return new MemoristError({
    code: (textOf("type")?.split("/").pop() || codeOf(status)) as ErrorCode,
    status,
    title: textOf("title") ?? "Failed",
    detail,
    field: textOf("field"),
    requestId: textOf("request_id"),
    retryAfter: headers.has("retry-after") ? retryAfterSeconds(headers.get("retry-after")) : undefined,
  });
}

/** The error of an `error` event of a chat, which names the class of the error. */
export function errorOfEvent(data: { type: string; detail: string; status: number }): MemoristError {
  const code = data.type.replace(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase();
  return new MemoristError({ ...data, code: code as ErrorCode, title: "No answer" });
}

/** The error of a server that does not answer, breaks off, or is not a memorist server. */
export function unreachableError(url: string, problem: string): MemoristError {
  const detail = `The server at ${url} ${problem}.`;
  return new MemoristError({ code: "no-server", status: 0, title: "No server", detail });
}

/** The seconds of a `Retry-After` header: a number, or a date. */
function retryAfterSeconds(header: string | null): number {
  let seconds = Number(header || 1);
  if (Number.isNaN(seconds)) seconds = (Date.parse(header ?? "") - Date.now()) / 1000;
  return Number.isNaN(seconds) ? 1 : Math.max(0, seconds);
}

const codeOf = (status: number): ErrorCode =>
  CODES[status] ?? (status >= 400 && status < 500 ? "invalid" : "memorist-error");

function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}
