// The stored messages of one conversation by number, loaded as they become visible, in any order.
import { get, Problem } from "../../api/client";
import type { ChatSession, Message } from "../../api/index";

const PAGE = 100;

/** The changes that a refresh found. */
export type RefreshResult = { first: boolean; back: boolean; grown: boolean };

export class Transcript {
  session: ChatSession | undefined;
  readonly messages = new Map<number, Message>();
  error: unknown;
  /** The last refresh got no response. */
  unreachable = false;
  version = 0;
  private readonly listeners = new Set<() => void>();
  /** The message numbers that were requested, including removed ones; they are not requested again. */
  private readonly loaded = new Set<number>();
  private readonly pendingPages = new Set<number>();
  private refreshing: Promise<void> | null = null;
  private nextRefresh: Promise<void> | null = null;
  private due = false;

  constructor(
    readonly user: string,
    readonly id: string,
  ) {}

  get last(): number {
    return this.session?.last_seq ?? 0;
  }

  /** True if a component shows this transcript. */
  get watched(): boolean {
    return this.listeners.size > 0;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Load new messages. Only one refresh runs at a time; calls during it share the next one. */
  refresh(): Promise<void> {
    if (!this.refreshing) {
      this.refreshing = this.fetchNew().finally(() => {
        this.refreshing = null;
      });
      return this.refreshing;
    }
    this.nextRefresh ??= this.refreshing
      .catch(() => {})
      .then(() => {
        this.nextRefresh = null;
        return this.refresh();
      });
    return this.nextRefresh;
  }

  /** True if the message with this number was removed. */
  isRemoved(seq: number): boolean {
    return this.loaded.has(seq) && !this.messages.has(seq);
  }

  /** Load the messages of a range that are not loaded yet. */
  need(from: number, to: number): void {
    if (this.error) return; // until the user retries
    for (let page = Math.floor((from - 1) / PAGE); page <= Math.floor((to - 1) / PAGE); page++) {
      let start = Math.max(page * PAGE + 1, this.session?.first_seq ?? 1);
      let end = Math.min((page + 1) * PAGE, this.last);
      while (start <= end && this.loaded.has(start)) start++;
      while (start <= end && this.loaded.has(end)) end--;
      if (start > end || this.pendingPages.has(page)) continue;
      this.pendingPages.add(page);
      this.read(start, end)
        .catch((error) => {
          this.error = error;
        })
        .finally(() => {
          this.pendingPages.delete(page);
          this.changed();
        });
    }
  }

  /** Called after each refresh; subclasses override it. */
  protected onRefreshed(_result: RefreshResult): void {}

  /** Notify listeners, at most once per frame. */
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

  private async fetchNew(): Promise<void> {
    try {
      const session = await get("/api/chat/sessions/{id}", { path: { id: this.id }, query: { user: this.user } });
      const lastLoaded = this.session ? this.last : session.last_seq - PAGE;
      const start = Math.max(lastLoaded + 1, session.last_seq - 2 * PAGE + 1, session.first_seq);
      if (session.last_seq >= start) await this.read(start, session.last_seq);
      const result = { first: !this.session, back: this.unreachable, grown: session.last_seq > this.last };
      this.session = session;
      this.error = undefined;
      this.unreachable = false;
      this.onRefreshed(result);
    } catch (error) {
      this.unreachable = error instanceof Problem && error.temporary;
      if (!this.unreachable) this.error = error; // for example, it was deleted elsewhere
      throw error;
    } finally {
      this.changed();
    }
  }

  private async read(start: number, end: number): Promise<void> {
    const query = { user: this.user, last: end - start + 1, before: end + 1 };
    const messages = await get("/api/messages/{session}/window", { path: { session: this.id }, query });
    for (const message of messages) this.messages.set(message.seq, message);
    for (let seq = start; seq <= end; seq++) this.loaded.add(seq);
  }
}
