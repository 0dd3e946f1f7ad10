// Server-sent events over fetch: EventSource can neither send a body nor say why it failed.
import { fetchSignedIn, unreachable } from "./client";

const MAX_SILENCE_MS = 40_000; // the server sends a heartbeat every 15 seconds

export type Event = { id: string; name: string; data: unknown };

/** The events of a response as they arrive. The stream ends when the server ends it, or when it is aborted. */
export async function* events(url: string, init: RequestInit = {}): AsyncGenerator<Event> {
  const headers = new Headers(init.headers);
  headers.set("Accept", "text/event-stream");
  const answer = await fetchSignedIn(url, { ...init, headers });
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser();
  try {
    for (;;) {
      const { done, value } = await withTimeout(reader.read());
      if (done) return;
      yield* parse(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Read the next chunk; a connection that is silent for too long counts as closed. */
function withTimeout<T>(next: Promise<T>): Promise<T> {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(unreachable()), MAX_SILENCE_MS);
    next.then(done, fail).finally(() => clearTimeout(timer));
  });
}

/** Return a function that takes the next piece of text and returns the events that are complete. */
export function parser(): (piece: string) => Event[] {
  let rest = "";
  let current = { id: "", name: "message", data: [] as string[] };
  return (piece) => {
    const parsedEvents: Event[] = [];
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (current.data.length)
          parsedEvents.push({ id: current.id, name: current.name, data: json(current.data.join("\n")) });
        current = { id: current.id, name: "message", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") current.id = value;
      else if (field === "event") current.name = value;
      else if (field === "data") current.data.push(value);
    }
    return parsedEvents;
  };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
