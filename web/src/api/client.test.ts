import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { address, get, Problem, patch, pause, post, problemOf, told } from "./client";

type Answer = Response | "nobody";
const broken = () => new Response(new ReadableStream({ start: (out) => out.error(new TypeError("network error")) }));
const fine = () => Response.json({ id: "e" });
let asked: Request[] = [];
let answers: Answer[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal("fetch", async (where: string, how: RequestInit) => {
    asked.push(new Request(`http://here${where}`, { ...how, signal: undefined }));
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

const keys = () => asked.map((request) => request.headers.get("Idempotency-Key"));
const add = () => post("/api/entries", { query: { agent: "scout" }, body: { content: "Lisbon", kind: "core" } });

/** What becomes of a call, while the time it waits passes. */
async function outcome<T>(call: Promise<T>): Promise<T | Problem> {
  const settled = call.catch((error) => error);
  await vi.runAllTimersAsync();
  return settled;
}

test("a server that restarts is asked again, also where a proxy answers for it", async () => {
  answers = [new Response("<h1>Bad gateway</h1>", { status: 502 }), new Response("", { status: 504 }), fine()];
  expect(await outcome(add())).toEqual({ id: "e" });
  expect(new Set(keys()).size).toBe(1);
});

test("an answer that broke off is asked for again, and is said in words for people", async () => {
  answers = [broken(), fine()];
  expect(await outcome(get("/api/agents"))).toEqual({ id: "e" });
  answers = [broken(), broken(), new Response("<html>")];
  expect(told(await outcome(get("/api/agents")))).toContain("broke off");
});

test("whoever tries again after no answer means the same change", async () => {
  expect(await outcome(add())).toBeInstanceOf(Problem);
  answers = [fine()];
  await outcome(add());
  expect(asked).toHaveLength(4);
  expect(new Set(keys()).size).toBe(1);
  answers = [fine()];
  await outcome(add());
  expect(new Set(keys()).size).toBe(2); // it was done: this is one more
});

test("whoever did something else since means it once more", async () => {
  const turn = (is_active: boolean) => patch("/api/refs/{key}", { path: { key: "r" }, body: { is_active } });
  await outcome(turn(false));
  answers = [fine(), fine()];
  await outcome(turn(true));
  await outcome(turn(false));
  expect(new Set(keys()).size).toBe(3);
});

test("what was refused has no key any more", async () => {
  answers = [Response.json({ detail: "No." }, { status: 422 }), fine()];
  expect(told(await outcome(add()))).toBe("No.");
  await outcome(add());
  expect(new Set(keys()).size).toBe(2);
});

test("a failure of any shape says something", () => {
  expect(problemOf(403, '{"message": "blocked"}', null).detail).toBe("The server answered 403.");
  expect(problemOf(500, "null", null).detail).toBe("The server answered 500.");
  expect(problemOf(400, '{"detail": {"deep": 1}}', "7").retryAfter).toBe(7);
  expect(problemOf(502, "", null).detail).toContain("does not answer");
});

test("names of any letters are parts of an address", () => {
  expect(address("/api/state/{key}", { key: "a/b ?" }, { user: "ä", q: "", none: null })).toBe(
    "/api/state/a%2Fb%20%3F?user=%C3%A4",
  );
});

test("a pause that is called off is over at once", async () => {
  const stop = new AbortController();
  stop.abort(new Error("off"));
  await expect(pause(60, stop.signal)).rejects.toThrow("off");
});
