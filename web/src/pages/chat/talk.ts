// Send messages and receive answers. A message stays here until it is answered, even if the connection is lost. This
// state lives outside the components, so navigation does not interrupt it.

import type { TurnState } from "../../api";
import { errorMessage, fetchSignedIn, Problem, pause } from "../../api/client";
import { type Event, events } from "../../api/events";
import { applyEvent, emptyLive, type Live } from "./live";
import { type OutgoingMessage, removeMessages, saveMessage, waiting } from "./outbox";
import { remember } from "./session";
import { type RefreshResult, Transcript } from "./transcript";

const RETRY_SECONDS = [0.5, 1, 2, 4, 8];
const LOST = "The connection was lost.";
const PICTURES =
  "The images of this message were too large to keep in this browser. Edit the message and attach them again.";
const UNSENT = "You stopped sending before the server received the message.";
const CUT_OFF = "The server stopped before the answer was complete.";
const MAX_TALKS = 8;
const talks = new Map<string, Talk>();

/** Return the conversation with an id; the same object while it is visible, busy or recently used. */
export function talkOf(user: string, id: string): Talk {
  const name = JSON.stringify([user, id]);
  const talk = talks.get(name) ?? new Talk(user, id);
  talks.delete(name);
  talks.set(name, talk); // most recently used last
  for (const [other, old] of talks) {
    if (talks.size <= MAX_TALKS) break;
    if (old !== talk && !old.watched && !old.busy) talks.delete(other);
  }
  return talk;
}

export class Talk extends Transcript {
  outbox: OutgoingMessage[] = [];
  live = new Map<string, Live>();
  /** The keys of messages whose connection is being retried. */
  trying = new Set<string>();
  /** The text for screen readers: the answer, once it is complete. */
  announced = "";
  private readonly stops = new Map<string, AbortController>();
  /** Answered messages, shown until the answer is loaded: key to message number. */
  private readonly finished = new Map<string, number>();

  get busy(): boolean {
    return this.stops.size > 0;
  }

  /** True if the answer to a message is being received. */
  listens(key: string): boolean {
    return this.stops.has(key);
  }

  /** Load the newest messages and continue with waiting ones. */
  async open(): Promise<void> {
    this.outbox = waiting(this.user, this.id);
    await this.refresh().catch((error) => {
      this.error = error;
      this.changed();
    });
  }

  /** Send a message. It stays in the outbox until it is answered. */
  say(text: string, images: string[], agents: string[]): void {
    const [key, at] = [crypto.randomUUID(), new Date().toISOString()];
    if (this.session) remember(this.user, this.session.agent, this.id);
    this.run({ key, session: this.id, agents, text, images, at, state: "sending" });
  }

  /** Send a message again with the same idempotency key. */
  retry(key: string): void {
    const outgoing = this.outbox.find((other) => other.key === key);
    if (outgoing && !this.stops.has(key)) this.run(outgoing);
  }

  /** Stop receiving an answer; the server still completes and stores it. */
  stop(key: string): void {
    this.stops.get(key)?.abort();
  }

  /** Discard an unanswered message here; the server keeps what it has stored. */
  forget(key: string): void {
    this.stop(key);
    removeMessages(this.user, (outgoing) => outgoing.key === key);
    this.outbox = this.outbox.filter((other) => other.key !== key);
    this.live.delete(key);
    this.changed();
  }

  protected override onRefreshed({ first, back, grown }: RefreshResult): void {
    for (const [key, seq] of this.finished) {
      if (seq > this.last) continue;
      this.finished.delete(key);
      this.forget(key);
    }
    for (const outgoing of this.outbox) {
      if (this.stops.has(outgoing.key) || this.finished.has(outgoing.key)) continue;
      if (this.live.get(outgoing.key)?.over) this.live.delete(outgoing.key);
      if (outgoing.state === "sending" || (outgoing.state === "lost" && (first || back))) this.run(outgoing);
      else if (first || grown || outgoing.state === "stopped") this.checkState(outgoing);
    }
  }

  /** Request the state of a message whose answer is not being received, by its key. */
  private async checkState(outgoing: OutgoingMessage): Promise<void> {
    const update = (more: Partial<OutgoingMessage>) => {
      const now = this.outbox.find((other) => other.key === outgoing.key);
      if (now && !this.stops.has(outgoing.key)) this.save({ ...now, ...more });
    };
    try {
      const answer = await fetchSignedIn(`${turnPath(outgoing)}?${this.turnParams(outgoing)}`);
      const state: TurnState = await answer.json();
      const seq = state.asked_seq ?? undefined;
      if (state.answered.length >= outgoing.agents.length) {
        this.finished.set(outgoing.key, seq ?? 0);
        this.refresh().catch(() => {}); // the page refreshes periodically
      } else if (outgoing.state !== "stopped") update({ seq });
      else if (state.running) update({ seq, taken: true });
      else update({ seq, state: "failed", why: CUT_OFF });
    } catch (error) {
      const unknown = error instanceof Problem && error.status === 404;
      if (unknown && outgoing.state === "stopped") update({ state: "failed", why: UNSENT });
    }
  }

  private async run(outgoing: OutgoingMessage): Promise<void> {
    const stop = new AbortController();
    this.stops.set(outgoing.key, stop);
    let now: OutgoingMessage = { ...outgoing, state: "sending", why: undefined };
    this.save(now);
    try {
      for await (const live of this.answer(outgoing, stop.signal)) {
        this.live.set(outgoing.key, live);
        if (!now.taken || (live.askedSeq && now.seq !== live.askedSeq)) {
          now = { ...now, taken: true, seq: live.askedSeq || now.seq };
          this.save(now);
        }
        this.changed();
      }
      const live = this.live.get(outgoing.key) ?? emptyLive();
      if (live.error) this.save({ ...now, state: "failed", why: live.error.detail });
      else {
        this.finished.set(outgoing.key, Math.max(0, ...live.replies.map((voice) => voice.seq)));
        removeMessages(this.user, (other) => other.key === outgoing.key);
      }
    } catch (error) {
      const state = stop.signal.aborted ? "stopped" : error instanceof Problem && error.temporary ? "lost" : "failed";
      this.live.delete(outgoing.key);
      const why = outgoing.lostImages ? PICTURES : errorMessage(error);
      if (this.outbox.some((other) => other.key === outgoing.key)) this.save({ ...now, state, why });
    } finally {
      this.stops.delete(outgoing.key);
      this.trying.delete(outgoing.key);
      this.changed();
    }
    await this.refresh().catch(() => {}); // the page refreshes periodically
  }

  /** Yield the growing answer until it is complete, reconnecting as needed. */
  private async *answer(outgoing: OutgoingMessage, signal: AbortSignal): AsyncGenerator<Live> {
    let live = emptyLive();
    this.live.set(outgoing.key, live);
    for (let tries = 0; ; tries++) {
      try {
        for await (const event of this.stream(outgoing, live.last, signal)) {
          live = applyEvent(live, event);
          this.trying.delete(outgoing.key);
          if (event.name === "text") tries = 0;
          if (event.name === "message") this.announced = announcement(event.data);
          yield live;
        }
        if (live.over && !wasCutOff(live)) return;
      } catch (error) {
        if (signal.aborted) throw error;
        const unknown = error instanceof Problem && error.status === 404 && live.last !== "";
        if (error instanceof Problem && !error.temporary && !unknown) throw error;
        if (unknown) live = emptyLive();
      }
      if (wasCutOff(live)) live = emptyLive();
      const seconds = RETRY_SECONDS[tries];
      if (seconds === undefined) throw new Problem(0, "No answer", LOST);
      this.trying.add(outgoing.key);
      this.changed();
      await pause(seconds, signal);
    }
  }

  /** The events of a turn: resumed after the last event, else from the start. */
  private stream(outgoing: OutgoingMessage, last: string, signal: AbortSignal): AsyncGenerator<Event> {
    if (last || outgoing.lostImages) {
      return events(`${turnPath(outgoing)}/events?${this.turnParams(outgoing)}`, {
        headers: { "Last-Event-ID": last },
        signal,
      });
    }
    const addressees = outgoing.agents.length > 1 ? { agents: outgoing.agents } : { agent_id: outgoing.agents[0] };
    const { text: message, images, key } = outgoing;
    const body = JSON.stringify({
      message,
      images,
      key,
      session_id: this.id,
      user: this.user,
      ...addressees,
      stream: true,
    });
    return events("/api/chat", { method: "POST", body, headers: { "Content-Type": "application/json" }, signal });
  }

  private turnParams(outgoing: OutgoingMessage): URLSearchParams {
    const params = new URLSearchParams({ session_id: this.id, user: this.user });
    if (outgoing.agents.length > 1) for (const agent of outgoing.agents) params.append("agents", agent);
    return params;
  }

  private save(outgoing: OutgoingMessage): void {
    saveMessage(this.user, outgoing);
    this.outbox = [...this.outbox.filter((other) => other.key !== outgoing.key), outgoing].sort((a, b) =>
      a.at.localeCompare(b.at),
    );
    this.changed();
  }
}

const turnPath = (outgoing: OutgoingMessage) => `/api/chat/turns/${encodeURIComponent(outgoing.key)}`;

function announcement(data: unknown): string {
  const { agent_id, message } = data as { agent_id: string; message: string };
  return `${agent_id}: ${message}`.slice(0, 1000);
}

/** True if the turn was interrupted because the server stopped; a retry with the same key continues it. */
const wasCutOff = (live: Live) => live.error?.type === "Overloaded";
