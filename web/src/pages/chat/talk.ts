// One conversation as this page knows it: messages by their numbers, read as they come into sight; what waits for an
// answer; and the answers that are being written. It lives outside of what is shown, so going elsewhere stops nothing.
import { get, Problem, pause, told } from "../../api/client";
import { type Event, events } from "../../api/events";
import type { ChatSession, Message } from "../../api/index";
import { heard, type Live, nothing } from "./live";
import { drop, placeOf, put, type Sent, waiting } from "./outbox";
import { remember } from "./session";

const PAGE = 100;
const PAUSES = [0.5, 1, 2, 4, 8];
const LOST = "The connection was lost.";
const PICTURES =
  "The pictures of this message did not fit into what this browser keeps. Take it back and attach them again.";
const talks = new Map<string, Talk>();

/** The conversation with an id, the same one for as long as the page is open. */
export function talkOf(user: string, id: string): Talk {
  const name = JSON.stringify([user, id]);
  const talk = talks.get(name) ?? new Talk(user, id);
  talks.set(name, talk);
  return talk;
}

export class Talk {
  session: ChatSession | undefined;
  messages = new Map<number, Message>();
  sent: Sent[] = [];
  live = new Map<string, Live>();
  /** Those whose connection is being tried again. */
  trying = new Set<string>();
  error: unknown;
  /** The server did not answer when it was last asked what is new. */
  away = false;
  /** What screen readers are told: the answer, once it is whole. */
  announced = "";
  version = 0;
  private readonly listeners = new Set<() => void>();
  private readonly stops = new Map<string, AbortController>();
  private readonly asked = new Set<number>();
  /** Those that have their answer, and are shown until it is read back. */
  private readonly finished = new Set<string>();
  private frame = 0;

  constructor(
    readonly user: string,
    readonly id: string,
  ) {}

  get last(): number {
    return this.session?.last_seq ?? 0;
  }

  get busy(): boolean {
    return this.stops.size > 0;
  }

  /** Whether the answer to something is being listened to. */
  listens(key: string): boolean {
    return this.stops.has(key);
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Read the newest, and go on with what waits. */
  async open(): Promise<void> {
    this.sent = waiting(this.user, this.id);
    try {
      await this.refresh();
    } catch (error) {
      this.error = error;
      this.changed();
    }
  }

  /** What has been said since, here or elsewhere. */
  async refresh(): Promise<void> {
    const path = { id: this.id };
    let session: ChatSession;
    try {
      session = await get("/api/chat/sessions/{id}", { path, query: { user: this.user } });
      const known = this.session ? this.last : Math.max(0, session.last_seq - PAGE);
      if (session.last_seq > known) await this.read(session.last_seq + 1, Math.min(session.last_seq - known, 2 * PAGE));
    } catch (error) {
      this.away = error instanceof Problem && error.passing;
      this.changed();
      throw error;
    }
    const first = !this.session;
    const back = this.away;
    this.session = session;
    this.error = undefined;
    this.away = false;
    this.sent = this.sent.filter((sent) => !this.finished.delete(sent.key));
    for (const sent of this.sent) {
      if (this.stops.has(sent.key)) continue;
      if (this.live.get(sent.key)?.over) this.live.delete(sent.key);
      if (placeOf(sent, this.known(sent.after))?.answered) this.forget(sent.key);
      else if (sent.state === "sending" || (sent.state === "lost" && (first || back))) this.run(sent);
    }
    for (const [key, live] of this.live) if (live.over && !this.stops.has(key)) this.live.delete(key);
    this.changed();
  }

  /** Read what is about to be seen and is not here yet. */
  need(from: number, to: number): void {
    if (this.error) return; // until somebody tries again
    for (let page = Math.floor((from - 1) / PAGE); page <= Math.floor((to - 1) / PAGE); page++) {
      const end = Math.min((page + 1) * PAGE, this.last);
      const start = Math.max(page * PAGE + 1, this.session?.first_seq ?? 1);
      if (this.asked.has(page) || (this.messages.has(start) && this.messages.has(end))) continue;
      this.asked.add(page);
      this.read(end + 1, end - start + 1)
        .catch((error) => {
          this.error = error;
        })
        .finally(() => {
          this.asked.delete(page);
          this.changed();
        });
    }
  }

  /** Those messages after a number that are here, in order. */
  known(after: number): Message[] {
    const found: Message[] = [];
    for (let seq = after + 1; seq <= this.last; seq++) {
      const message = this.messages.get(seq);
      if (message) found.push(message);
    }
    return found;
  }

  /** Say something. It is kept here until it has its answer. */
  say(text: string, images: string[], agents: string[]): void {
    const at = new Date().toISOString();
    const sent: Sent = {
      key: crypto.randomUUID(),
      session: this.id,
      agents,
      text,
      images,
      after: this.last,
      at,
      state: "sending",
    };
    this.note(sent);
    if (this.session) remember(this.user, this.session.agent, this.id);
    this.run(sent);
  }

  /** Send it again, with its own key. */
  retry(key: string): void {
    const sent = this.sent.find((one) => one.key === key);
    if (sent && !this.stops.has(key)) this.run(sent);
  }

  /** Listen no longer; the answer is written all the same, and saved. */
  stop(key: string): void {
    this.stops.get(key)?.abort();
  }

  /** Give up something that has no answer. What the server has stays there. */
  forget(key: string): void {
    this.stop(key);
    drop(this.user, key);
    this.sent = this.sent.filter((one) => one.key !== key);
    this.changed();
  }

  private async read(before: number, last: number): Promise<void> {
    const query = { user: this.user, last, before };
    const found = await get("/api/messages/{session}/window", { path: { session: this.id }, query });
    for (const message of found) this.messages.set(message.seq, message);
  }

  private async run(sent: Sent): Promise<void> {
    const stop = new AbortController();
    this.stops.set(sent.key, stop);
    this.note({ ...sent, state: "sending", why: undefined });
    let live = nothing();
    this.live.set(sent.key, live);
    try {
      for (let tries = 0; ; tries++) {
        try {
          for await (const event of this.stream(sent, live, stop.signal)) {
            live = heard(live, event);
            this.live.set(sent.key, live);
            this.trying.delete(sent.key);
            if (event.name === "text") tries = 0;
            if (event.name === "message") this.announced = spokenBy(event.data);
            this.changed();
          }
          if (live.over && !cutOff(live)) break;
        } catch (error) {
          if (stop.signal.aborted) throw error;
          const unknown = error instanceof Problem && error.status === 404 && live.last !== "";
          if (error instanceof Problem && !error.passing && !unknown) throw error;
          if (unknown) live = nothing();
        }
        if (cutOff(live)) live = nothing();
        const seconds = PAUSES[tries];
        if (seconds === undefined) throw new Problem(0, "No answer", LOST);
        this.trying.add(sent.key);
        this.changed();
        await pause(seconds, stop.signal);
      }
      if (live.error) this.note({ ...sent, state: "failed", why: live.error.detail });
      else {
        this.finished.add(sent.key);
        drop(this.user, sent.key);
      }
    } catch (error) {
      const state = stop.signal.aborted ? "stopped" : error instanceof Problem && error.passing ? "lost" : "failed";
      this.live.delete(sent.key);
      const why = sent.lostImages ? PICTURES : told(error);
      if (this.sent.some((one) => one.key === sent.key)) this.note({ ...sent, state, why });
    } finally {
      this.stops.delete(sent.key);
      this.trying.delete(sent.key);
      this.changed();
    }
    await this.refresh().catch(() => {}); // the page asks again by itself
  }

  /** The events of a turn: from where they broke off, else from the start. */
  private stream(sent: Sent, live: Live, signal: AbortSignal): AsyncGenerator<Event> {
    const group = sent.agents.length > 1;
    if (live.last || sent.lostImages) {
      const asked = new URLSearchParams({ session_id: this.id, user: this.user });
      if (group) for (const agent of sent.agents) asked.append("agents", agent);
      const headers = { "Last-Event-ID": live.last };
      return events(`/api/chat/turns/${encodeURIComponent(sent.key)}/events?${asked}`, { headers, signal });
    }
    const who = group ? { agents: sent.agents } : { agent_id: sent.agents[0] };
    const { text, images, key } = sent;
    const body = JSON.stringify({
      message: text,
      images,
      key,
      session_id: this.id,
      user: this.user,
      ...who,
      stream: true,
    });
    return events("/api/chat", { method: "POST", body, headers: { "Content-Type": "application/json" }, signal });
  }

  private note(sent: Sent): void {
    put(this.user, sent);
    this.sent = [...this.sent.filter((one) => one.key !== sent.key), sent].sort((a, b) => a.at.localeCompare(b.at));
    this.changed();
  }

  /** Say that something is different: once a frame, however much happens in it. */
  private changed(): void {
    if (this.frame) return;
    const show = () => {
      this.frame = 0;
      this.version++;
      for (const listener of this.listeners) listener();
    };
    this.frame = document.hidden ? window.setTimeout(show, 100) : requestAnimationFrame(show);
  }
}

function spokenBy(data: unknown): string {
  const { agent_id, message } = data as { agent_id: string; message: string };
  return `${agent_id}: ${message}`.slice(0, 1000);
}

/** Whether a turn ended because its server did: it goes on with the same key. */
const cutOff = (live: Live) => live.error?.type === "Overloaded";
