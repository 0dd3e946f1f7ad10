// Load data for a page: once, again on request, or page by page. An older response never replaces a newer one, and a response to
// another request is never shown as the current one.
import { useCallback, useEffect, useEffectEvent, useRef, useState } from "react";
import { begun, came, failed, type Held, NOTHING } from "./held";

export type Loaded<T> = {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  /** What is there answers the question before, until the new answer comes. */
  stale: boolean;
  reload: () => void;
  /** Show this from now on, for what the page itself has just changed. */
  set: (data: T) => void;
};

/** Load something, and again whenever one of `on` changes; what was there stays until the new has come, or has failed. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, on: readonly unknown[]): Loaded<T> {
  const question = useQuestion(on);
  const { state, ask, stop, setState } = useHeld<T>();
  const [round, setRound] = useState(0);
  const now = useRef(question);
  now.current = question;
  const start = useEffectEvent(() => ask(question, load, (_, found) => found));
  useEffect(() => {
    start();
    return stop;
  }, [question, round, stop]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const set = useCallback(
    (data: T) => {
      stop(); // what was asked for before this is older
      setState(came(now.current, data));
    },
    [stop, setState],
  );
  return { data: state.data, error: state.error, loading: state.loading, stale: state.stale, reload, set };
}

export type Page<T> = { data: T[]; next: string | null };
export type Pages<T> = {
  items: T[];
  error: unknown;
  loading: boolean;
  /** What is there answers the question before, until the new answer comes. */
  stale: boolean;
  hasMore: boolean;
  more: () => void;
  reload: () => void;
  /** Ask again for what failed: the next page, or all. */
  retry: () => void;
  edit: (change: (items: T[]) => T[]) => void;
};

/** Load a list page by page; it starts again whenever one of `on` changes. */
export function usePages<T>(
  load: (after: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
  on: readonly unknown[],
): Pages<T> {
  const question = useQuestion(on);
  const { state, ask, stop, setState } = useHeld<Page<T>>();
  const [round, setRound] = useState(0);
  const last = useRef<string>(undefined);
  const page = (after: string | undefined) => {
    last.current = after;
    ask(
      question,
      (signal) => load(after, signal),
      (before, found) => (after ? { ...found, data: [...(before?.data ?? []), ...found.data] } : found),
    );
  };
  const start = useEffectEvent(() => page(undefined));
  useEffect(() => {
    start();
    return stop;
  }, [question, round, stop]);
  const { data: items, next } = state.data ?? { data: [], next: null };
  const hasMore = next !== null && !state.stale;
  return {
    items,
    error: state.error,
    loading: state.loading,
    stale: state.stale,
    hasMore,
    more: () => hasMore && !state.loading && page(next),
    reload: () => setRound((before) => before + 1),
    retry: () => page(last.current),
    edit: (change) =>
      setState((before) => ({
        ...before,
        data: { next: before.data?.next ?? null, data: change(before.data?.data ?? []) },
      })),
  };
}

/** The number of a question: another one whenever something in it is another. */
function useQuestion(on: readonly unknown[]): number {
  const before = useRef({ on, number: 0 });
  const same = on.every((value, place) => Object.is(value, before.current.on[place]));
  if (!same) before.current = { on, number: before.current.number + 1 };
  return before.current.number;
}

/** The last answer, and a way to ask for the next, which calls off the one before. */
function useHeld<T>() {
  const [state, setState] = useState<Held<T>>(NOTHING);
  const running = useRef<AbortController>(undefined);
  const stop = useCallback(() => running.current?.abort(), []);
  const ask = <F>(
    question: number,
    load: (signal: AbortSignal) => Promise<F>,
    join: (before: T | undefined, found: F) => T,
  ) => {
    stop();
    const now = new AbortController();
    const { signal } = now;
    running.current = now;
    setState((before) => begun(before, question));
    load(signal).then(
      (found) => signal.aborted || setState((before) => came(question, join(before.data, found))),
      (error) => signal.aborted || setState((before) => failed(before, question, error)),
    );
  };
  return { state, ask, stop, setState };
}
