// The stored messages of one conversation by number, loaded as they become visible, in any order.
import { get, Problem } from "../../api/client";
import type { ChatSession, Message } from "../../api/index";

const PAGE = 100;

/** What a look at the server found that was not so before. */
export type Looked = { first: boolean; back: boolean; grown: boolean };

export class Transcript {
  session: ChatSession | undefined;
  readonly messages = new Map<number, Message>();
  error: unknown;
  /** The server did not answer when it was last asked what is new. */
  away = false;
  version = 0;
  private readonly listeners = new Set<() => void>();
  /** The numbers that were asked for and answered, be it with nothing: they are not asked for again. */
  private readonly answered = new Set<number>();
  private readonly asked = new Set<number>();
  private looking: Promise<void> | null = null;
  private following: Promise<void> | null = null;
  private due = false;

  constructor(
    readonly user: string,
    readonly id: string,
  ) {}

  get last(): number {
    return this.session?.last_seq ?? 0;
  }

  /** Whether anything on the page shows it. */
  get watched(): boolean {
    return this.listeners.size > 0;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** What has been said since, here or elsewhere. One look at a time: whoever asks during one gets the next. */
  refresh(): Promise<void> {
    if (!this.looking) {
      this.looking = this.look().finally(() => {
        this.looking = null;
      });
      return this.looking;
    }
    this.following ??= this.looking
      .catch(() => {})
      .then(() => {
        this.following = null;
        return this.refresh();
      });
    return this.following;
  }

  /** Whether a number has no message any more: it was taken back. */
  gone(seq: number): boolean {
    return this.answered.has(seq) && !this.messages.has(seq);
  }

  /** Read what is about to be seen and is not here yet. */
  need(from: number, to: number): void {
    if (this.error) return; // until somebody tries again
    for (let page = Math.floor((from - 1) / PAGE); page <= Math.floor((to - 1) / PAGE); page++) {
      let start = Math.max(page * PAGE + 1, this.session?.first_seq ?? 1);
      let end = Math.min((page + 1) * PAGE, this.last);
      while (start <= end && this.answered.has(start)) start++;
      while (start <= end && this.answered.has(end)) end--;
      if (start > end || this.asked.has(page)) continue;
      this.asked.add(page);
      this.read(start, end)
        .catch((error) => {
          this.error = error;
        })
        .finally(() => {
          this.asked.delete(page);
          this.changed();
        });
    }
  }

  /** Something is known that was not: for those who go on from there. */
  protected looked(_found: Looked): void {}

  /** Say that something is different: once a frame, however much happens in it. */
  protected changed(): void {
    if (this.due) return;
    this.due = true;
    const show = () => {
      this.due = false;
      this.version++;
      for (const listener of this.listeners) listener();
    };
    if (document.hidden) setTimeout(show, 100);
    else requestAnimationFrame(show);
  }

  private async look(): Promise<void> {
    try {
      const session = await get("/api/chat/sessions/{id}", { path: { id: this.id }, query: { user: this.user } });
      const known = this.session ? this.last : session.last_seq - PAGE;
      const start = Math.max(known + 1, session.last_seq - 2 * PAGE + 1, session.first_seq);
      if (session.last_seq >= start) await this.read(start, session.last_seq);
      const found = { first: !this.session, back: this.away, grown: session.last_seq > this.last };
      this.session = session;
      this.error = undefined;
      this.away = false;
      this.looked(found);
    } catch (error) {
      this.away = error instanceof Problem && error.passing;
      if (!this.away) this.error = error; // such as that it was deleted elsewhere
      throw error;
    } finally {
      this.changed();
    }
  }

  private async read(start: number, end: number): Promise<void> {
    const query = { user: this.user, last: end - start + 1, before: end + 1 };
    const found = await get("/api/messages/{session}/window", { path: { session: this.id }, query });
    for (const message of found) this.messages.set(message.seq, message);
    for (let seq = start; seq <= end; seq++) this.answered.add(seq);
  }
}
