import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Message } from "../../api/index";
import { waiting } from "./outbox";
import { extraRows } from "./rows";
import { type Talk, talkOf } from "./talk";

type FakeRequest = { url: URL; method: string; body: { message: string; key: string } };
/** A fake server with stored messages and configurable responses. */
let stored: Pick<Message, "seq" | "role">[] = [];
let turns: Map<string, object>;
let respond: (request: FakeRequest) => Promise<Response> | Response;
let number = 0;

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
const refused = (status: number, detail: string) => json({ title: "No", detail, type: "Invalid" }, status);
const eventStream = (...events: [string, object][]) =>
  new Response(
    events.map(([name, data], at) => `id: ${at + 1}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join(""),
  );

/** Store a message and its answer, and return their events. */
function fullAnswer(): Response {
  const seq = stored.length + 1;
  stored.push({ seq, role: "user" }, { seq: seq + 1, role: "assistant" });
  const agent_id = "assistant";
  return eventStream(
    ["start", { agent_id, asked_seq: seq }],
    ["message", { agent_id, message: "Yes.", asked_seq: seq, last_seq: seq + 1 }],
    ["done", {}],
  );
}

function answer(request: FakeRequest): Promise<Response> | Response {
  const path = request.url.pathname;
  if (path === "/api/chat") return respond(request);
  if (path.endsWith("/window")) return json(stored);
  const turn = turns.get(path.split("/")[4] ?? "");
  if (path.startsWith("/api/chat/turns/")) return turn ? json(turn) : refused(404, "There is no such turn.");
  return json({ id: "s", agent: "assistant", first_seq: 1, last_seq: stored.length });
}

beforeEach(() => {
  stored = [];
  turns = new Map();
  respond = fullAnswer;
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("requestAnimationFrame", (show: () => void) => setTimeout(show));
  vi.stubGlobal("fetch", async (url: string, init: RequestInit = {}) => {
    const body = typeof init.body === "string" ? JSON.parse(init.body) : undefined;
    const stop = new Promise<never>((_, fail) => {
      init.signal?.addEventListener("abort", () => fail(new DOMException("stopped", "AbortError")));
    });
    return Promise.race([answer({ url: new URL(url, "http://here"), method: init.method ?? "GET", body }), stop]);
  });
});
afterEach(() => vi.unstubAllGlobals());

async function opened(): Promise<Talk> {
  const talk = talkOf("ada", `s${number++}`);
  await talk.open();
  return talk;
}
const settles = (talk: Talk, ...states: object[]) => vi.waitFor(() => expect(talk.outbox).toMatchObject(states));
const rows = (talk: Talk) => extraRows(talk).map((row) => row.type);

test("the same text twice is two messages: the rejected one stays", async () => {
  const talk = await opened();
  talk.say("yes", [], ["assistant"]);
  await settles(talk);
  respond = () => refused(422, "That is too much.");
  talk.say("yes", [], ["assistant"]);
  await settles(talk, { text: "yes", state: "failed", why: "That is too much." });
  expect(rows(talk)).toEqual(["said", "state"]);
  expect(waiting("ada", talk.id)).toHaveLength(1);
});

test("a message is matched by its number, not by its text", async () => {
  const talk = await opened();
  respond = () => {
    stored.push({ seq: 1, role: "user" });
    return eventStream(
      ["start", { agent_id: "assistant", asked_seq: 1 }],
      ["error", { detail: "No model." }],
      ["done", {}],
    );
  };
  talk.say("My key is AKIA…", [], ["assistant"]);
  await settles(talk, { state: "failed", seq: 1 });
  expect(rows(talk)).toEqual(["state"]); // the message itself is among the stored ones
});

test("a message stopped before the server received it was not sent", async () => {
  const talk = await opened();
  respond = () => new Promise(() => {});
  talk.say("yes", ["data:image/gif;base64,R0"], ["assistant"]);
  talk.stop(talk.outbox[0]?.key ?? "");
  await settles(talk, { state: "failed", images: ["data:image/gif;base64,R0"] });
});

test("a stopped answer is checked until it is stored", async () => {
  const talk = await opened();
  respond = () => new Promise(() => {});
  talk.say("yes", [], ["assistant"]);
  const key = talk.outbox[0]?.key ?? "";
  stored.push({ seq: 1, role: "user" });
  turns.set(key, { asked_seq: 1, answered: [], running: true });
  talk.stop(key);
  await settles(talk, { state: "stopped", taken: true, seq: 1 });
  stored.push({ seq: 2, role: "assistant" });
  turns.set(key, { asked_seq: 1, answered: ["assistant"], running: false });
  await talk.refresh();
  await settles(talk);
});

test("a stopped and interrupted answer can be retried", async () => {
  const talk = await opened();
  respond = () => new Promise(() => {});
  talk.say("yes", [], ["assistant"]);
  const key = talk.outbox[0]?.key ?? "";
  turns.set(key, { asked_seq: 1, answered: [], running: false });
  stored.push({ seq: 1, role: "user" });
  talk.stop(key);
  await settles(talk, { state: "failed", seq: 1 });
});

test("only a few hidden conversations stay in memory", async () => {
  const talk = await opened();
  const stop = talk.subscribe(() => {});
  const other = await opened();
  for (let more = 0; more < 20; more++) await opened();
  expect(talkOf("ada", talk.id)).toBe(talk);
  expect(talkOf("ada", other.id)).not.toBe(other);
  stop();
});
