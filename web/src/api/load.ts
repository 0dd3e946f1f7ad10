// Load data for a page: once, again on request, or page by page. An older response never replaces a newer one, and a response to
// another request is never shown as the current one.
import { useCallback, useEffect, useEffectEvent, useRef, useState } from "react";
import { failed, type LoadState, NOTHING, started, succeeded } from "./loadState";

export type Loaded<T> = {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  /** The data belongs to the previous request, until the new response arrives. */
  stale: boolean;
  reload: () => void;
  /** Replace the data after a change that the page itself made. */
  set: (data: T) => void;
};

/** Load data, and again whenever one of `on` changes; the old data stays until the new request succeeds or fails. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, on: readonly unknown[]): Loaded<T> {
  const question = useQuestion(on);
  const { state, ask, stop, setState } = useLoadState<T>();
  const [reloads, setReloads] = useState(0);
  const latestQuestion = useRef(question);
  latestQuestion.current = question;
  const start = useEffectEvent(() => ask(question, load, (_, result) => result));
  useEffect(() => {
    start();
    return stop;
  }, [question, reloads, stop]);
  const reload = useCallback(() => setReloads((previous) => previous + 1), []);
  const set = useCallback(
    (data: T) => {
      stop(); // a running request would return older data
      setState(succeeded(latestQuestion.current, data));
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
  /** The data belongs to the previous request, until the new response arrives. */
  stale: boolean;
  hasMore: boolean;
  more: () => void;
  reload: () => void;
  /** Repeat the failed request: the next page, or the first. */
  retry: () => void;
  edit: (change: (items: T[]) => T[]) => void;
};

/** Load a list page by page; it starts again whenever one of `on` changes. */
export function usePages<T>(
  load: (after: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
  on: readonly unknown[],
): Pages<T> {
  const question = useQuestion(on);
  const { state, ask, stop, setState } = useLoadState<Page<T>>();
  const [reloads, setReloads] = useState(0);
  const last = useRef<string>(undefined);
  const page = (after: string | undefined) => {
    last.current = after;
    ask(
      question,
      (signal) => load(after, signal),
      (previous, result) => (after ? { ...result, data: [...(previous?.data ?? []), ...result.data] } : result),
    );
  };
  const start = useEffectEvent(() => page(undefined));
  useEffect(() => {
    start();
    return stop;
  }, [question, reloads, stop]);
  const { data: items, next } = state.data ?? { data: [], next: null };
  const hasMore = next !== null && !state.stale;
  return {
    items,
    error: state.error,
    loading: state.loading,
    stale: state.stale,
    hasMore,
    more: () => hasMore && !state.loading && page(next),
    reload: () => setReloads((previous) => previous + 1),
    retry: () => page(last.current),
    edit: (change) =>
      setState((previous) => ({
        ...previous,
        data: { next: previous.data?.next ?? null, data: change(previous.data?.data ?? []) },
      })),
  };
}

/** The number of the request; it increases whenever one of `on` changes. */
function useQuestion(on: readonly unknown[]): number {
  const previous = useRef({ on, number: 0 });
  const same = on.every((value, index) => Object.is(value, previous.current.on[index]));
  if (!same) previous.current = { on, number: previous.current.number + 1 };
  return previous.current.number;
}

/** The last response, and a function that starts the next request and aborts the previous one. */
function useLoadState<T>() {
  const [state, setState] = useState<LoadState<T>>(NOTHING);
  const running = useRef<AbortController>(undefined);
  const stop = useCallback(() => running.current?.abort(), []);
  const ask = <F>(
    question: number,
    load: (signal: AbortSignal) => Promise<F>,
    join: (previous: T | undefined, result: F) => T,
  ) => {
    stop();
    const controller = new AbortController();
    const { signal } = controller;
    running.current = controller;
    setState((previous) => started(previous, question));
    load(signal).then(
      (result) => signal.aborted || setState((previous) => succeeded(question, join(previous.data, result))),
      (error) => signal.aborted || setState((previous) => failed(previous, question, error)),
    );
  };
  return { state, ask, stop, setState };
}
