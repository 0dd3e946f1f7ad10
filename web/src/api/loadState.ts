// The state of a loaded response and the request it belongs to, as calls start, return and fail.
export type LoadState<T> = {
  /** The number of the request that `data` belongs to. */
  question: number;
  data?: T;
  error?: unknown;
  loading: boolean;
  /** The data belongs to an earlier request and stays until the new response arrives. */
  stale: boolean;
};
export const NOTHING = { question: -1, loading: true, stale: false };

export const started = <T>(previous: LoadState<T>, question: number): LoadState<T> => ({
  question: previous.question,
  data: previous.data,
  loading: true,
  stale: previous.data !== undefined && previous.question !== question,
});

export const succeeded = <T>(question: number, data: T): LoadState<T> => ({
  question,
  data,
  loading: false,
  stale: false,
});

/** Keep the data if it belongs to this request; never show data of another request. */
export const failed = <T>(previous: LoadState<T>, question: number, error: unknown): LoadState<T> => ({
  question,
  data: previous.question === question ? previous.data : undefined,
  error,
  loading: false,
  stale: false,
});
