import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { address, errorMessage, get, Problem, patch, pause, post, problemOf } from "./client";

type Answer = Response | "nobody";
const broken = () => new Response(new ReadableStream({ start: (out) => out.error(new TypeError("network error")) }));
const fine = () => Response.json({ id: "e" });
let requests: Request[] = [];
let answers: Answer[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  requests = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    requests.push(new Request(`http://here${url}`, { ...init, signal: undefined }));
    const answer = answers.shift() ?? "nobody";
    if (answer === "nobody") throw new TypeError("Failed to fetch");
    return answer;
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  answers = [];
});

const keys = () => requests.map((request) => request.headers.get("Idempotency-Key"));
const add = () => post("/api/entries", { query: { agent: "scout" }, body: { content: "Lisbon", kind: "core" } });

/** Run a call while advancing the fake timers. */
async function outcome<T>(call: Promise<T>): Promise<T | Problem> {
  const promise = call.catch((error) => error);
  await vi.runAllTimersAsync();
  return promise;
}

test("a request is retried while the server restarts, also behind a proxy", async () => {
  answers = [new Response("<h1>Bad gateway</h1>", { status: 502 }), new Response("", { status: 504 }), fine()];
  expect(await outcome(add())).toEqual({ id: "e" });
  expect(new Set(keys()).size).toBe(1);
});

test("an interrupted response is retried, and then reported in plain words", async () => {
  answers = [broken(), fine()];
  expect(await outcome(get("/api/agents"))).toEqual({ id: "e" });
  answers = [broken(), broken(), new Response("<html>")];
  expect(errorMessage(await outcome(get("/api/agents")))).toContain("connection was lost");
});

test("a retry after no response uses the same idempotency key", async () => {
  expect(await outcome(add())).toBeInstanceOf(Problem);
  answers = [fine()];
  await outcome(add());
  expect(requests).toHaveLength(4);
  expect(new Set(keys()).size).toBe(1);
  answers = [fine()];
  await outcome(add());
  expect(new Set(keys()).size).toBe(2); // the first one succeeded: this is a new request
});

test("the same write after another success is a new one", async () => {
  const turn = (is_active: boolean) => patch("/api/refs/{key}", { path: { key: "r" }, body: { is_active } });
  await outcome(turn(false));
  answers = [fine(), fine()];
  await outcome(turn(true));
  await outcome(turn(false));
  expect(new Set(keys()).size).toBe(3);
});

test("a rejected write releases its key", async () => {
  answers = [Response.json({ detail: "No." }, { status: 422 }), fine()];
  expect(errorMessage(await outcome(add()))).toBe("No.");
  await outcome(add());
  expect(new Set(keys()).size).toBe(2);
});

test("every kind of failure has a message", () => {
  expect(problemOf(403, '{"message": "blocked"}', null).detail).toBe("The server answered 403.");
  expect(problemOf(500, "null", null).detail).toBe("The server answered 500.");
  expect(problemOf(400, '{"detail": {"deep": 1}}', "7").retryAfter).toBe(7);
  expect(problemOf(502, "", null).detail).toContain("does not answer");
});

test("path parameters are encoded", () => {
  expect(address("/api/state/{key}", { key: "a/b ?" }, { user: "ä", q: "", none: null })).toBe(
    "/api/state/a%2Fb%20%3F?user=%C3%A4",
  );
});

test("an aborted pause ends at once", async () => {
  const stop = new AbortController();
  stop.abort(new Error("off"));
  await expect(pause(60, stop.signal)).rejects.toThrow("off");
});
