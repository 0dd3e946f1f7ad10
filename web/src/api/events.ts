// Server-sent events over fetch: EventSource can neither send a body nor say why it failed.
import { fetched, unreachable } from "./client";

const SILENCE = 40_000; // the server has a beat every 15 seconds: whoever says nothing for so long is not there any more

export type Event = { id: string; name: string; data: unknown };

/** The events of one answer, as they come. The stream ends when the server ends it, or when it is called off. */
export async function* events(where: string, how: RequestInit = {}): AsyncGenerator<Event> {
  const headers = new Headers(how.headers);
  headers.set("Accept", "text/event-stream");
  const answer = await fetched(where, { ...how, headers });
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser();
  try {
    for (;;) {
      const { done, value } = await heard(reader.read());
      if (done) return;
      yield* parse(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Read the next chunk; a connection that is silent for too long counts as closed. */
function heard<T>(next: Promise<T>): Promise<T> {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(unreachable()), SILENCE);
    next.then(done, fail).finally(() => clearTimeout(timer));
  });
}

/** Takes the text piece by piece, however it was cut, and gives the events that are complete. */
export function parser(): (piece: string) => Event[] {
  let rest = "";
  let now = { id: "", name: "message", data: [] as string[] };
  return (piece) => {
    const found: Event[] = [];
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (now.data.length) found.push({ id: now.id, name: now.name, data: json(now.data.join("\n")) });
        now = { id: now.id, name: "message", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") now.id = value;
      else if (field === "event") now.name = value;
      else if (field === "data") now.data.push(value);
    }
    return found;
  };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
