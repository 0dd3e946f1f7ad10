import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Transcript } from "./transcript";

/** A fake server with one conversation; it records requests and can delay responses. */
const server = {
  first: 1,
  last: 0,
  asked: [] as string[],
  hold: null as Promise<void> | null,
  gone: false,
  removed: 0,
};

function answer(url: string) {
  const { pathname, searchParams: query } = new URL(url, "http://here");
  if (server.gone) return { status: 404, body: { title: "Gone", detail: "There is no session.", type: "NotFound" } };
  if (!pathname.endsWith("/window"))
    return { status: 200, body: { id: "s", first_seq: server.first, last_seq: server.last } };
  const before = Number(query.get("before"));
  const start = Math.max(server.first, before - Number(query.get("last")));
  server.asked.push(`${start}-${before - 1}`);
  return {
    status: 200,
    body: Array.from({ length: Math.max(0, before - start) }, (_, index) => ({ seq: start + index })).filter(
      ({ seq }) => seq !== server.removed,
    ),
  };
}

beforeEach(() => {
  Object.assign(server, { first: 1, last: 0, asked: [], hold: null, gone: false, removed: 0 });
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("requestAnimationFrame", (show: () => void) => setTimeout(show));
  vi.stubGlobal("fetch", async (url: string) => {
    const { status, body } = answer(url); // the state at the time of the request
    await server.hold;
    return new Response(JSON.stringify(body), { status });
  });
});
afterEach(() => vi.unstubAllGlobals());

test("messages sent meanwhile leave no gap", async () => {
  const talk = new Transcript("ada", "s");
  server.last = 150;
  await talk.refresh();
  server.last = 355;
  await talk.refresh();
  for (let at = 1; at <= 355; at += 20) talk.need(at, Math.min(at + 20, 355));
  await vi.waitFor(() => expect(talk.messages.size).toBe(355));
});

test("missing messages are requested once", async () => {
  const talk = new Transcript("ada", "s");
  server.last = 300;
  await talk.refresh();
  server.first = 150; // the beginning was purged meanwhile
  talk.subscribe(() => talk.need(1, 120)); // as the page does after each change
  talk.need(1, 120);
  await vi.waitFor(() => expect(server.asked).toHaveLength(3));
  await new Promise((done) => setTimeout(done, 30));
  expect(server.asked).toHaveLength(3); // the newest, then two pages
});

test("a removed message is not waited for", async () => {
  const talk = new Transcript("ada", "s");
  server.last = 3;
  server.removed = 2;
  expect(talk.isRemoved(2)).toBe(false); // not requested yet
  await talk.refresh();
  expect([1, 2, 3].map((seq) => talk.isRemoved(seq))).toEqual([false, true, false]);
});

test("an older refresh never replaces a newer one", async () => {
  const talk = new Transcript("ada", "s");
  server.last = 2;
  let release = () => {};
  server.hold = new Promise((done) => {
    release = done;
  });
  const first = talk.refresh();
  server.last = 4;
  const [second, third] = [talk.refresh(), talk.refresh()];
  expect(third).toBe(second);
  release();
  await Promise.all([first, second]);
  expect(talk.last).toBe(4);
});

test("a conversation that was deleted elsewhere shows an error", async () => {
  const talk = new Transcript("ada", "s");
  server.last = 2;
  await talk.refresh();
  server.gone = true;
  await expect(talk.refresh()).rejects.toThrow("There is no session.");
  expect(talk.error).toBeDefined();
  expect(talk.unreachable).toBe(false);
});
