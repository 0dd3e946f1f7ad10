// Send messages and receive answers. A message stays here until it is answered, whatever happens to the connection. This
// state lives outside the components, so navigating elsewhere interrupts nothing.
import { fetched, Problem, pause, told } from "../../api/client";
import { type Event, events } from "../../api/events";
import type { components } from "../../api/schema";
import { heard, type Live, nothing } from "./live";
import { drop, put, type Sent, waiting } from "./outbox";
import { remember } from "./session";
import { type Looked, Transcript } from "./transcript";

const PAUSES = [0.5, 1, 2, 4, 8];
const LOST = "The connection was lost.";
const PICTURES =
  "The pictures of this message were too large to keep in this browser. Edit the message and attach them again.";
const UNSENT = "You stopped it before the server received it.";
const CUT_OFF = "The server stopped before the answer was written.";
const MOST_TALKS = 8;
const talks = new Map<string, Talk>();

/** The conversation with an id: the same one while it is shown, listens or was used a moment ago. */
export function talkOf(user: string, id: string): Talk {
  const name = JSON.stringify([user, id]);
  const talk = talks.get(name) ?? new Talk(user, id);
  talks.delete(name);
  talks.set(name, talk); // the newest is the last
  for (const [other, old] of talks) {
    if (talks.size <= MOST_TALKS) break;
    if (old !== talk && !old.watched && !old.busy) talks.delete(other);
  }
  return talk;
}

export class Talk extends Transcript {
  sent: Sent[] = [];
  live = new Map<string, Live>();
  /** Those whose connection is being tried again. */
  trying = new Set<string>();
  /** What screen readers are told: the answer, once it is whole. */
  announced = "";
  private readonly stops = new Map<string, AbortController>();
  /** Those that have their answer, and are shown until it is read back: by its number. */
  private readonly finished = new Map<string, number>();

  get busy(): boolean {
    return this.stops.size > 0;
  }

  /** Whether the answer to something is being listened to. */
  listens(key: string): boolean {
    return this.stops.has(key);
  }

  /** Read the newest, and go on with what waits. */
  async open(): Promise<void> {
    this.sent = waiting(this.user, this.id);
    await this.refresh().catch((error) => {
      this.error = error;
      this.changed();
    });
  }

  /** Say something. It is kept here until it has its answer. */
  say(text: string, images: string[], agents: string[]): void {
    const [key, at] = [crypto.randomUUID(), new Date().toISOString()];
    if (this.session) remember(this.user, this.session.agent, this.id);
    this.run({ key, session: this.id, agents, text, images, at, state: "sending" });
  }

  /** Send it again, with its own key. */
  retry(key: string): void {
    const sent = this.sent.find((one) => one.key === key);
    if (sent && !this.stops.has(key)) this.run(sent);
  }

  /** Listen no longer; an answer that is being written is written all the same, and saved. */
  stop(key: string): void {
    this.stops.get(key)?.abort();
  }

  /** Give up something that has no answer. What the server has stays there. */
  forget(key: string): void {
    this.stop(key);
    drop(this.user, (sent) => sent.key === key);
    this.sent = this.sent.filter((one) => one.key !== key);
    this.live.delete(key);
    this.changed();
  }

  protected override looked({ first, back, grown }: Looked): void {
    for (const [key, seq] of this.finished) {
      if (seq > this.last) continue;
      this.finished.delete(key);
      this.forget(key);
    }
    for (const sent of this.sent) {
      if (this.stops.has(sent.key) || this.finished.has(sent.key)) continue;
      if (this.live.get(sent.key)?.over) this.live.delete(sent.key);
      if (sent.state === "sending" || (sent.state === "lost" && (first || back))) this.run(sent);
      else if (first || grown || sent.state === "stopped") this.ask(sent);
    }
  }

  /** What has become of something that nobody listens to: the server knows it by its key. */
  private async ask(sent: Sent): Promise<void> {
    const become = (more: Partial<Sent>) => {
      const now = this.sent.find((one) => one.key === sent.key);
      if (now && !this.stops.has(sent.key)) this.note({ ...now, ...more });
    };
    try {
      const answer = await fetched(`${turn(sent)}?${this.named(sent)}`);
      const found: components["schemas"]["TurnState"] = await answer.json();
      const seq = found.asked_seq ?? undefined;
      if (found.answered.length >= sent.agents.length) {
        this.finished.set(sent.key, seq ?? 0);
        this.refresh().catch(() => {}); // the page asks again by itself
      } else if (sent.state !== "stopped") become({ seq });
      else if (found.running) become({ seq, taken: true });
      else become({ seq, state: "failed", why: CUT_OFF });
    } catch (error) {
      const unknown = error instanceof Problem && error.status === 404;
      if (unknown && sent.state === "stopped") become({ state: "failed", why: UNSENT });
    }
  }

  private async run(sent: Sent): Promise<void> {
    const stop = new AbortController();
    this.stops.set(sent.key, stop);
    let now: Sent = { ...sent, state: "sending", why: undefined };
    this.note(now);
    try {
      for await (const live of this.answer(sent, stop.signal)) {
        this.live.set(sent.key, live);
        if (!now.taken || (live.asked && now.seq !== live.asked)) {
          now = { ...now, taken: true, seq: live.asked || now.seq };
          this.note(now);
        }
        this.changed();
      }
      const live = this.live.get(sent.key) ?? nothing();
      if (live.error) this.note({ ...now, state: "failed", why: live.error.detail });
      else {
        this.finished.set(sent.key, Math.max(0, ...live.voices.map((voice) => voice.seq)));
        drop(this.user, (one) => one.key === sent.key);
      }
    } catch (error) {
      const state = stop.signal.aborted ? "stopped" : error instanceof Problem && error.passing ? "lost" : "failed";
      this.live.delete(sent.key);
      const why = sent.lostImages ? PICTURES : told(error);
      if (this.sent.some((one) => one.key === sent.key)) this.note({ ...now, state, why });
    } finally {
      this.stops.delete(sent.key);
      this.trying.delete(sent.key);
      this.changed();
    }
    await this.refresh().catch(() => {}); // the page asks again by itself
  }

  /** An answer as it grows, to its end, over as many connections as it takes. */
  private async *answer(sent: Sent, signal: AbortSignal): AsyncGenerator<Live> {
    let live = nothing();
    this.live.set(sent.key, live);
    for (let tries = 0; ; tries++) {
      try {
        for await (const event of this.stream(sent, live.last, signal)) {
          live = heard(live, event);
          this.trying.delete(sent.key);
          if (event.name === "text") tries = 0;
          if (event.name === "message") this.announced = spokenBy(event.data);
          yield live;
        }
        if (live.over && !cutOff(live)) return;
      } catch (error) {
        if (signal.aborted) throw error;
        const unknown = error instanceof Problem && error.status === 404 && live.last !== "";
        if (error instanceof Problem && !error.passing && !unknown) throw error;
        if (unknown) live = nothing();
      }
      if (cutOff(live)) live = nothing();
      const seconds = PAUSES[tries];
      if (seconds === undefined) throw new Problem(0, "No answer", LOST);
      this.trying.add(sent.key);
      this.changed();
      await pause(seconds, signal);
    }
  }

  /** The events of a turn: from where they broke off, else from the start. */
  private stream(sent: Sent, last: string, signal: AbortSignal): AsyncGenerator<Event> {
    if (last || sent.lostImages) {
      return events(`${turn(sent)}/events?${this.named(sent)}`, { headers: { "Last-Event-ID": last }, signal });
    }
    const who = sent.agents.length > 1 ? { agents: sent.agents } : { agent_id: sent.agents[0] };
    const { text: message, images, key } = sent;
    const body = JSON.stringify({ message, images, key, session_id: this.id, user: this.user, ...who, stream: true });
    return events("/api/chat", { method: "POST", body, headers: { "Content-Type": "application/json" }, signal });
  }

  private named(sent: Sent): URLSearchParams {
    const asked = new URLSearchParams({ session_id: this.id, user: this.user });
    if (sent.agents.length > 1) for (const agent of sent.agents) asked.append("agents", agent);
    return asked;
  }

  private note(sent: Sent): void {
    put(this.user, sent);
    this.sent = [...this.sent.filter((one) => one.key !== sent.key), sent].sort((a, b) => a.at.localeCompare(b.at));
    this.changed();
  }
}

const turn = (sent: Sent) => `/api/chat/turns/${encodeURIComponent(sent.key)}`;

function spokenBy(data: unknown): string {
  const { agent_id, message } = data as { agent_id: string; message: string };
  return `${agent_id}: ${message}`.slice(0, 1000);
}

/** Whether a turn ended because its server did: it goes on with the same key. */
const cutOff = (live: Live) => live.error?.type === "Overloaded";
