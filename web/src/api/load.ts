// What a page shows of the server: loaded once, again when asked, page by page; never an older answer over a newer one.
import { useCallback, useEffect, useRef, useState } from "react";

export type Loaded<T> = {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
  /** Show this from now on, for what the page itself has just changed. */
  set: (data: T) => void;
};

/** Load something, and again whenever one of `on` changes; what was there stays until the new has come. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, on: readonly unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: unknown; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ data: before.data, loading: true }));
    load(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, loading: false }),
      (error) => stop.signal.aborted || setState((before) => ({ data: before.data, error, loading: false })),
    );
    return () => stop.abort();
  }, [...on, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const set = useCallback((data: T) => setState({ data, loading: false }), []);
  return { data: state.data, error: state.error, loading: state.loading, reload, set };
}

export type Page<T> = { data: T[]; next: string | null };
export type Pages<T> = {
  items: T[];
  error: unknown;
  loading: boolean;
  hasMore: boolean;
  more: () => void;
  reload: () => void;
  edit: (change: (items: T[]) => T[]) => void;
};

/** Load a list page by page; it starts again whenever one of `on` changes. */
export function usePages<T>(
  load: (after: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
  on: readonly unknown[],
): Pages<T> {
  type State = { items: T[]; next: string | null; error?: unknown; loading: boolean; started: boolean };
  const [state, setState] = useState<State>({ items: [], next: null, loading: true, started: false });
  const [round, setRound] = useState(0);
  const running = useRef<AbortController | null>(null);
  const fetchPage = (after: string | undefined) => {
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    setState((before) => ({ ...before, error: undefined, loading: true }));
    load(after, stop.signal).then(
      (page) =>
        stop.signal.aborted ||
        setState((before) => ({
          items: after === undefined ? page.data : [...before.items, ...page.data],
          next: page.next,
          loading: false,
          started: true,
        })),
      (error) => stop.signal.aborted || setState((before) => ({ ...before, error, loading: false })),
    );
  };
  useEffect(() => {
    fetchPage(undefined);
    return () => running.current?.abort();
  }, [...on, round]);
  return {
    items: state.items,
    error: state.error,
    loading: state.loading,
    hasMore: state.next !== null,
    more: () => state.next !== null && !state.loading && fetchPage(state.next),
    reload: () => setRound((before) => before + 1),
    edit: (change) => setState((before) => ({ ...before, items: change(before.items) })),
  };
}
