import { afterEach, expect, test, vi } from "vitest";
import { type Event, events, parser } from "./events";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("events are the same however the text was cut", () => {
  const text =
    'id: 1\nevent: text\ndata: {"text": "a"}\n\n: still here\n\nid: 2\r\ndata: b\r\ndata: c\r\n\r\ndata: {"not": \n\n';
  const whole = parser()(text);
  expect(whole).toEqual([
    { id: "1", name: "text", data: { text: "a" } },
    { id: "2", name: "message", data: "b\nc" },
    { id: "2", name: "message", data: '{"not": ' },
  ]);
  const parse = parser();
  expect([...text].flatMap((letter) => parse(letter))).toEqual(whole);
});

test("a connection that died without a word is noticed", async () => {
  vi.useFakeTimers();
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (out) => out.enqueue(new TextEncoder().encode("data: 1\n\n")),
    cancel: () => {
      cancelled = true;
    },
  });
  vi.stubGlobal("fetch", async () => new Response(body));
  const heard: Event[] = [];
  const listening = (async () => {
    for await (const event of events("/api/notes/stream")) heard.push(event);
  })().catch((error) => error);
  await vi.advanceTimersByTimeAsync(39_000);
  expect(heard).toHaveLength(1);
  expect(cancelled).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await listening).toMatchObject({ status: 0, passing: true });
  expect(cancelled).toBe(true);
});
