// The client against a running server, whose address and key are in the environment.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { Memorist, MemoristError, type MemoristOptions } from "memorist-client";

const url = process.env.MEMORIST_URL ?? "";
const memorist = new Memorist({ url });
const scope = (options: Partial<MemoristOptions> = {}) =>
  new Memorist({ url, ...options }).scope({ user: randomUUID(), agent: "scout" });

/** Check the code, the status and the text of an error. */
const failure = (code: string, status: number, detail: RegExp) => (error: unknown) => {
  assert.ok(error instanceof MemoristError, String(error));
  assert.equal(error.code, code);
  assert.equal(error.status, status);
  assert.match(error.detail, detail);
  assert.equal(error.message, error.detail);
  return true;
};

/** A fetch without a response, until the request is aborted. */
const silent: typeof fetch = (_, init) =>
  new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));

/** The response of a server that rejects a request. */
const rejected = (status: number, retryAfter = 0, code = "overloaded") =>
  Response.json({ type: `/problems/${code}` }, { status, headers: { "Retry-After": String(retryAfter) } });

test("a scope remembers and recalls", async () => {
  const me = scope();
  const session = await me.sessions.resume();
  const message = await me.messages.append(session.id, "user", "My sister Clara moved to Lisbon.", { author: "Ada" });
  assert.equal(message.seq, 1);
  assert.equal(message.author, "Ada");
  const { data: hits } = await me.search("where does Clara live", { limit: 3 });
  assert.equal(hits[0]?.text, "My sister Clara moved to Lisbon.");
  const context = await me.context(session.id, "Where is she?", { budget: 2000 });
  assert.ok(context.messages.length > 0);
  const turn = await me.saveTurn(
    session.id,
    [
      { role: "user", content: "Where is she?" },
      { role: "assistant", content: "In Lisbon." },
    ],
    { key: "turn-1", report: context.report },
  );
  assert.equal((await me.turns.get(turn.id)).session, session.id);
});

test("a list is one page, or all records", async () => {
  const me = scope();
  const texts = Array.from({ length: 7 }, (_, n) => `Message ${n}`);
  await me.messages.extend(
    (await me.sessions.add("long")).id,
    texts.map((content) => ({ role: "user", content })),
  );
  const page = await me.messages.list("long", { limit: 3 });
  assert.equal(page.data.length, 3);
  assert.ok(page.next);
  const received: unknown[] = [];
  for await (const message of me.messages.list("long", { limit: 3 })) received.push(message.content);
  assert.deepEqual(
    received,
    texts.map((text) => ({ text })),
  );
});

test("names that a header cannot carry are sent as parameters", async () => {
  const me = memorist.scope({ user: "Zoë 😀", agent: " scout" });
  await me.state.set("thème/dark", { on: true, list: [1, null] });
  assert.deepEqual((await me.state.get("thème/dark")).value, { on: true, list: [1, null] });
  await me.state.set("empty", null);
  assert.equal((await me.state.get("empty")).value, null);
});

test("lists in a query keep commas", async () => {
  const me = scope();
  await me.items.put(["a,b", "c"], "k", { n: 1 });
  assert.deepEqual((await me.items.get(["a,b", "c"], "k")).value, { n: 1 });
  const { data } = await me.items.list(["a,b"], { where: { n: { $gte: 1 } }, exact: false });
  assert.equal(data.length, 1);
  assert.equal((await me.items.list([])).data.length, 1);
});

test("bytes are uploaded and downloaded unchanged", async () => {
  const me = scope();
  const bytes = new Uint8Array([0, 255, 10, 13, 128]);
  const { key } = await me.refs.add(bytes, "some bytes", { key: "bytes" });
  assert.deepEqual(await me.refs.content(key), bytes);
  await me.refs.add("one\ntwo\nthree\n", "counting", { key: "numbers" });
  assert.match((await me.refs.get("numbers", { lines: [2, 2] })).text, /two/);
  const page = new Blob(["# Trams\n\nLine 28 goes up the hill."], { type: "text/markdown" });
  const document = await me.documents.add("Trams", page);
  assert.equal(document.media, "markdown");
  assert.match(await me.documents.text(document.id), /Line 28/);
});

test("errors have the code, the field and the status of the problem", async () => {
  const me = scope();
  await assert.rejects(me.sessions.get("nowhere"), failure("not-found", 404, /nowhere/));
  const readNone = async () => me.messages.list("nowhere", { limit: 0 });
  await assert.rejects(readNone, (error) => {
    assert.ok(error instanceof MemoristError);
    assert.equal(error.field, "limit");
    assert.ok(error.requestId);
    return true;
  });
  await me.notes.overwrite("# Notes");
  await assert.rejects(me.notes.overwrite("# Other", { if_version: 7 }), failure("wrong-version", 409, /version/));
  await assert.rejects(scope({ apiKey: "mst_wrong" }).notes.read(), failure("unauthorized", 401, /key/i));
  assert.throws(() => new Memorist({ url: "localhost:7700" }), TypeError);
  assert.throws(() => new Memorist({ url, apiKey: "clé" }), TypeError);
});

test("a write whose response is lost is sent again and happens once", async () => {
  const keys: (string | null)[] = [];
  const lossy: typeof fetch = async (input, init) => {
    keys.push(new Headers(init?.headers).get("Idempotency-Key"));
    const response = await fetch(input, init);
    if (keys.length > 1) return response;
    await response.arrayBuffer();
    throw new TypeError("connection lost");
  };
  const me = scope({ fetch: lossy });
  const entry = await me.entries.add("Ada prefers trains.");
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.deepEqual((await me.entries.list({ until: new Date() })).data, [entry]);
});

test("a caller's idempotency key is used", async () => {
  const me = scope();
  const first = await me.entries.add("Once.", { idempotencyKey: "one" });
  assert.equal((await me.entries.add("Once.", { idempotencyKey: "one" })).id, first.id);
  await assert.rejects(me.entries.add("Twice.", { idempotencyKey: "one" }), failure("key-reused", 422, /key/));
});

test("a busy server is asked again when it says so", async () => {
  const busy = () => rejected(503);
  let calls = 0;
  const me = scope({ fetch: async (input, init) => (calls++ < 2 ? busy() : fetch(input, init)) });
  await me.notes.read();
  assert.equal(calls, 3);
  const always = scope({ fetch: async () => busy(), retryFor: 100 });
  await assert.rejects(always.notes.read(), (error) => {
    assert.ok(error instanceof MemoristError);
    assert.equal(error.retryAfter, 0);
    return failure("overloaded", 503, /answered 503/)(error);
  });
});

test("a request that is not a verb is not sent again if it may have happened", async () => {
  let calls = 0;
  const create = (respond: () => Promise<Response>) => {
    calls = 0;
    const counting: typeof fetch = (input, init) => (calls++ ? fetch(input, init) : respond());
    const client = new Memorist({ url, fetch: counting });
    return client.request("post", "/api/keys", { name: randomUUID(), permissions: ["read"] });
  };
  const lost = async () => Promise.reject(new TypeError("connection lost"));
  await assert.rejects(create(lost), failure("no-server", 0, /connection lost/));
  assert.equal(calls, 1);
  await assert.rejects(
    create(async () => rejected(503, 0, "in-doubt")),
    failure("in-doubt", 503, /answered 503/),
  );
  assert.equal(calls, 1);
  for (const status of [429, 503]) {
    assert.ok(await create(async () => rejected(status)));
    assert.equal(calls, 2);
  }
});

test("a retry is not earlier than the server asks", async () => {
  const times: number[] = [];
  const busyOnce: typeof fetch = async (input, init) => {
    times.push(performance.now());
    return times.length > 1 ? fetch(input, init) : rejected(429, 1);
  };
  await scope({ fetch: busyOnce }).notes.read();
  assert.equal(times.length, 2);
  assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 995);
});

test("a request is sent again for 15 seconds, or as long as the caller says", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const times = async (options: Partial<MemoristOptions>, respond: () => Promise<Response>) => {
    now = 0;
    const times: number[] = [];
    const failing: typeof fetch = () => {
      times.push(now);
      return respond();
    };
    let isOver = false;
    const call = scope({ ...options, fetch: failing }).notes.read();
    call.catch(() => {}).finally(() => (isOver = true));
    for (; !isOver; await new Promise(setImmediate)) {
      now += 10;
      t.mock.timers.tick(10);
    }
    await assert.rejects(call, MemoristError);
    return times;
  };
  const down = () => Promise.reject(new TypeError("down"));
  const whileDown = await times({}, down);
  assert.ok(whileDown.length > 4);
  assert.ok(14_900 < (whileDown.at(-1) ?? 0) && (whileDown.at(-1) ?? 0) < 15_100, String(whileDown));
  assert.ok(((await times({ retryFor: 3000 }, down)).at(-1) ?? 0) < 3100);
  assert.equal((await times({ retryFor: 0 }, down)).length, 1);
  assert.equal((await times({}, async () => rejected(503, 20))).length, 1);
  assert.ok((await times({}, async () => rejected(503, 4))).length > 2);
});

test("a server that asks for a long pause is an error with retryAfter", async () => {
  let calls = 0;
  const busy: typeof fetch = async () => {
    calls += 1;
    return rejected(429, 60, "too-many");
  };
  const me = scope({ fetch: busy });
  const isTooMany = (error: unknown) => {
    assert.ok(error instanceof MemoristError);
    assert.equal(error.retryAfter, 60);
    return failure("too-many", 429, /answered 429/)(error);
  };
  await assert.rejects(me.notes.read(), isTooMany);
  assert.equal(calls, 1);
  await assert.rejects(me.chat("Hello"), isTooMany);
  assert.equal(calls, 2);
});

test("a call that waits has more time", async () => {
  let calls = 0;
  const counting: typeof fetch = (input, init) => {
    calls += 1;
    return fetch(input, init);
  };
  const me = scope({ fetch: counting, timeout: 500 });
  assert.deepEqual(await me.notes.changes({ wait: 1 }), []);
  assert.equal(calls, 1);
});

test("a server that does not answer is an error with the code no-server", async () => {
  const nobody = new Memorist({ url: "http://127.0.0.1:9", retryFor: 0 }).scope();
  await assert.rejects(nobody.notes.read(), failure("no-server", 0, /127\.0\.0\.1:9 does not answer/));
  const slow = scope({ fetch: silent, timeout: 20, retryFor: 0 });
  await assert.rejects(slow.notes.read(), failure("no-server", 0, /no response within 0.02 s/));
  const portal = scope({
    fetch: async () => new Response("<html>", { headers: { "Content-Type": "text/html" } }),
  });
  await assert.rejects(
    portal.notes.read(),
    failure("no-server", 0, /^The server at \S+ is not a memorist server: it sent text\/html\.$/),
  );
  const moved = scope({
    fetch: async () => new Response(null, { status: 301, headers: { Location: "https://else.example" } }),
  });
  await assert.rejects(moved.notes.read(), failure("memorist-error", 301, /redirects to https:\/\/else\.example/));
});

test("an aborted signal cancels the request and its retries", async () => {
  const signal = AbortSignal.timeout(50);
  const me = scope();
  await assert.rejects(me.notes.changes({ wait: 20, signal }), { name: "TimeoutError" });
  const failing = scope({ fetch: async () => Promise.reject(new TypeError("down")), retryFor: 60_000 });
  await assert.rejects(failing.notes.read({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  await assert.rejects(me.notes.read({ signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("a chat streams its events", async () => {
  const me = scope();
  const names: string[] = [];
  let text = "";
  for await (const { event, data } of me.chatStream("My sister Clara moved to Lisbon.")) {
    names.push(event);
    if (event === "text") text += data.text;
    if (event === "message") assert.equal(data.message, text);
  }
  assert.equal(names[0], "start");
  assert.equal(names.at(-1), "message");
  const reply = await me.chat("Where does Clara live?");
  assert.match(reply.message, /Lisbon/);
});

test("a chat stream that breaks off is resumed", async () => {
  const requests: string[] = [];
  const cutting: typeof fetch = async (input, init) => {
    requests.push(`${init?.method} ${new Headers(init?.headers).get("Last-Event-ID") ?? ""}`.trim());
    const response = await fetch(input, init);
    if (requests.length > 1 || !response.body) return response;
    const reader = response.body.getReader();
    const first = await reader.read();
    await reader.cancel();
    const text = new TextDecoder().decode(first.value).split("\n\n")[0];
    return new Response(`${text}\n\n`);
  };
  const me = scope({ fetch: cutting });
  const names: string[] = [];
  for await (const { event } of me.chatStream("Hello")) names.push(event);
  assert.equal(requests[0], "POST");
  assert.match(requests[1] ?? "", /^GET \d+$/);
  assert.equal(names.filter((name) => name === "start").length, 1);
  assert.equal(names.at(-1), "message");
});

test("a chat without a response is sent again and then fails", async () => {
  const mute = scope({ fetch: silent, timeout: 20, retryFor: 0 });
  await assert.rejects(mute.chat("Hello"), failure("no-server", 0, /no response within 0.02 s/));
  let calls = 0;
  const silentOnce: typeof fetch = (input, init) => (calls++ ? fetch : silent)(input, init);
  assert.ok((await scope({ fetch: silentOnce, timeout: 2000 }).chat("Hello")).message);
  assert.equal(calls, 2);
});

test("a chat is resumed after a response of a busy server or of a proxy", async () => {
  for (const status of [429, 502, 503, 504]) {
    let calls = 0;
    const me = scope({ fetch: async (input, init) => (calls++ ? fetch(input, init) : rejected(status)) });
    assert.ok((await me.chat("Hello")).message);
    assert.equal(calls, 2);
  }
});

test("another server continues the turn of one that stops", async () => {
  let calls = 0;
  const data = { type: "Overloaded", detail: "It is being stopped.", status: 503, session_id: "", key: "k" };
  const stopping: typeof fetch = async (input, init) => {
    if (!String(input).endsWith("/api/chat") || calls++) return fetch(input, init);
    data.session_id = JSON.parse(String(init?.body)).session_id;
    return new Response(`id: 7\nevent: error\ndata: ${JSON.stringify(data)}\n\nid: 8\nevent: done\ndata: {}\n\n`);
  };
  const me = scope({ fetch: stopping });
  const session = await me.sessions.resume();
  const names: string[] = [];
  for await (const { event } of me.chatStream("Hello", { session: session.id })) names.push(event);
  assert.equal(calls, 2);
  assert.equal(names[0], "start");
  assert.equal(names.at(-1), "message");
  assert.ok(!names.includes("error"));
});

test("a turn that every server gives up fails after the retries", async () => {
  const requests: string[] = [];
  const data = { type: "Overloaded", detail: "It is being stopped.", status: 503, session_id: "s", key: "k" };
  const start = `id: 1\nevent: start\ndata: ${JSON.stringify({ resume: "/api/chat/turns/1" })}\n\n`;
  const stream = `${start}id: 2\nevent: error\ndata: ${JSON.stringify(data)}\n\nid: 3\nevent: done\ndata: {}\n\n`;
  const stopping: typeof fetch = async (_, init) => {
    requests.push(String(init?.method));
    return new Response(stream);
  };
  const me = scope({ fetch: stopping, retryFor: 1500 });
  await assert.rejects(me.chat("Hello"), failure("overloaded", 503, /being stopped/));
  assert.deepEqual(requests, ["POST", "POST"]);
});

test("the error of an agent ends a chat without a retry", async () => {
  let calls = 0;
  const data = { type: "ModelUnavailable", detail: "The model is down.", status: 503, session_id: "s", key: "k" };
  const stream = `id: 1\nevent: error\ndata: ${JSON.stringify(data)}\n\nid: 2\nevent: done\ndata: {}\n\n`;
  const failing: typeof fetch = async () => {
    calls += 1;
    return new Response(stream);
  };
  const me = scope({ fetch: failing });
  await assert.rejects(me.chat("Hello"), failure("model-unavailable", 503, /The model is down/));
  assert.equal(calls, 1);
});

test("a chat that cannot start throws the problem", async () => {
  const me = scope();
  await assert.rejects(me.chat(""), failure("invalid", 422, /message/));
  await assert.rejects(me.chat("Hello", { session: "no such" }), failure("not-found", 404, /no such/));
  const stop = new AbortController();
  await assert.rejects(
    async () => {
      for await (const _ of me.chatStream("Hello", { signal: stop.signal })) stop.abort();
    },
    { name: "AbortError" },
  );
});

test("other requests of the API are typed too", async () => {
  const { version } = await memorist.request("get", "/api/status");
  assert.match(version, /\d+\.\d+/);
  const user = randomUUID();
  await memorist.scope({ user, agent: "scout" }).notes.append("- likes tea");
  const receipt = await memorist.request("post", "/api/users/{user}/erase", { user });
  assert.ok(receipt);
});

test("arguments are checked by the compiler", async () => {
  const me = scope();
  // @ts-expect-error: no such role
  const wrongRole = () => me.messages.append("trip", "nobody", "Hello");
  // @ts-expect-error: no such option
  const wrongOption = () => me.search("x", { limits: 3 });
  // @ts-expect-error: no such verb
  const wrongVerb = () => me.notes.explode();
  assert.ok([wrongRole, wrongOption, wrongVerb]);
});
