import { afterEach, expect, test, vi } from "vitest";
import { type Event, events, parser } from "./events";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("events are parsed the same however the text is split", () => {
  const text =
    'id: 1\nevent: text\ndata: {"text": "a"}\n\n: still here\n\nid: 2\r\ndata: b\r\ndata: c\r\n\r\ndata: {"not": \n\n';
  const expected = parser()(text);
  expect(expected).toEqual([
    { id: "1", name: "text", data: { text: "a" } },
    { id: "2", name: "message", data: "b\nc" },
    { id: "2", name: "message", data: '{"not": ' },
  ]);
  const parse = parser();
  expect([...text].flatMap((letter) => parse(letter))).toEqual(expected);
});

test("a silent connection times out", async () => {
  vi.useFakeTimers();
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (out) => out.enqueue(new TextEncoder().encode("data: 1\n\n")),
    cancel: () => {
      cancelled = true;
    },
  });
  vi.stubGlobal("fetch", async () => new Response(body));
  const received: Event[] = [];
  const listening = (async () => {
    for await (const event of events("/api/notes/stream")) received.push(event);
  })().catch((error) => error);
  await vi.advanceTimersByTimeAsync(39_000);
  expect(received).toHaveLength(1);
  expect(cancelled).toBe(false);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await listening).toMatchObject({ status: 0, temporary: true });
  expect(cancelled).toBe(true);
});
