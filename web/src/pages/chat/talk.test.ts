import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Message } from "../../api/index";
import { waiting } from "./outbox";
import { extraRows } from "./rows";
import { type Talk, talkOf } from "./talk";

type Asked = { where: URL; method: string; body: { message: string; key: string } };
/** A server: what is stored, and what it answers to what is said. */
let stored: Pick<Message, "seq" | "role">[] = [];
let turns: Map<string, object>;
let said: (asked: Asked) => Promise<Response> | Response;
let number = 0;

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
const refused = (status: number, detail: string) => json({ title: "No", detail, type: "Invalid" }, status);
const told = (...events: [string, object][]) =>
  new Response(
    events.map(([name, data], at) => `id: ${at + 1}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join(""),
  );

/** Store a message and its answer, and tell of it. */
function answered(): Response {
  const seq = stored.length + 1;
  stored.push({ seq, role: "user" }, { seq: seq + 1, role: "assistant" });
  const agent_id = "assistant";
  return told(
    ["start", { agent_id, asked_seq: seq }],
    ["message", { agent_id, message: "Yes.", asked_seq: seq, last_seq: seq + 1 }],
    ["done", {}],
  );
}

function answer(asked: Asked): Promise<Response> | Response {
  const path = asked.where.pathname;
  if (path === "/api/chat") return said(asked);
  if (path.endsWith("/window")) return json(stored);
  const turn = turns.get(path.split("/")[4] ?? "");
  if (path.startsWith("/api/chat/turns/")) return turn ? json(turn) : refused(404, "There is no such turn.");
  return json({ id: "s", agent: "assistant", first_seq: 1, last_seq: stored.length });
}

beforeEach(() => {
  stored = [];
  turns = new Map();
  said = answered;
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("requestAnimationFrame", (show: () => void) => setTimeout(show));
  vi.stubGlobal("fetch", async (where: string, how: RequestInit = {}) => {
    const body = typeof how.body === "string" ? JSON.parse(how.body) : undefined;
    const stop = new Promise<never>((_, fail) => {
      how.signal?.addEventListener("abort", () => fail(new DOMException("stopped", "AbortError")));
    });
    return Promise.race([answer({ where: new URL(where, "http://here"), method: how.method ?? "GET", body }), stop]);
  });
});
afterEach(() => vi.unstubAllGlobals());

async function opened(): Promise<Talk> {
  const talk = talkOf("ada", `s${number++}`);
  await talk.open();
  return talk;
}
const settles = (talk: Talk, ...states: object[]) => vi.waitFor(() => expect(talk.sent).toMatchObject(states));
const rows = (talk: Talk) => extraRows(talk).map((row) => row.type);

test("the same words twice are two messages: the one that is refused stays", async () => {
  const talk = await opened();
  talk.say("yes", [], ["assistant"]);
  await settles(talk);
  said = () => refused(422, "That is too much.");
  talk.say("yes", [], ["assistant"]);
  await settles(talk, { text: "yes", state: "failed", why: "That is too much." });
  expect(rows(talk)).toEqual(["said", "state"]);
  expect(waiting("ada", talk.id)).toHaveLength(1);
});

test("a message is the one with its number, whatever the server made of its words", async () => {
  const talk = await opened();
  said = () => {
    stored.push({ seq: 1, role: "user" });
    return told(["start", { agent_id: "assistant", asked_seq: 1 }], ["error", { detail: "No model." }], ["done", {}]);
  };
  talk.say("My key is AKIA…", [], ["assistant"]);
  await settles(talk, { state: "failed", seq: 1 });
  expect(rows(talk)).toEqual(["state"]); // its words stand among the stored ones
});

test("what was stopped before the server had it was not sent", async () => {
  const talk = await opened();
  said = () => new Promise(() => {});
  talk.say("yes", ["data:image/gif;base64,R0"], ["assistant"]);
  talk.stop(talk.sent[0]?.key ?? "");
  await settles(talk, { state: "failed", images: ["data:image/gif;base64,R0"] });
});

test("what was stopped while it is written is asked for until it is there", async () => {
  const talk = await opened();
  said = () => new Promise(() => {});
  talk.say("yes", [], ["assistant"]);
  const key = talk.sent[0]?.key ?? "";
  stored.push({ seq: 1, role: "user" });
  turns.set(key, { asked_seq: 1, answered: [], running: true });
  talk.stop(key);
  await settles(talk, { state: "stopped", taken: true, seq: 1 });
  stored.push({ seq: 2, role: "assistant" });
  turns.set(key, { asked_seq: 1, answered: ["assistant"], running: false });
  await talk.refresh();
  await settles(talk);
});

test("what was stopped and then cut off can be tried again", async () => {
  const talk = await opened();
  said = () => new Promise(() => {});
  talk.say("yes", [], ["assistant"]);
  const key = talk.sent[0]?.key ?? "";
  turns.set(key, { asked_seq: 1, answered: [], running: false });
  stored.push({ seq: 1, role: "user" });
  talk.stop(key);
  await settles(talk, { state: "failed", seq: 1 });
});

test("only a few conversations are held that nobody looks at", async () => {
  const talk = await opened();
  const stop = talk.subscribe(() => {});
  const other = await opened();
  for (let more = 0; more < 20; more++) await opened();
  expect(talkOf("ada", talk.id)).toBe(talk);
  expect(talkOf("ada", other.id)).not.toBe(other);
  stop();
});
