// The state of a loaded response and the request it belongs to, as calls start, return and fail.
export type Held<T> = {
  /** The number of the question that `data` answers. */
  question: number;
  data?: T;
  error?: unknown;
  loading: boolean;
  /** The data is there until the answer to another question comes. */
  stale: boolean;
};
export const NOTHING = { question: -1, loading: true, stale: false };

export const begun = <T>(before: Held<T>, question: number): Held<T> => ({
  question: before.question,
  data: before.data,
  loading: true,
  stale: before.data !== undefined && before.question !== question,
});

export const came = <T>(question: number, data: T): Held<T> => ({ question, data, loading: false, stale: false });

/** Keep the data if it belongs to this request; never show that of another. */
export const failed = <T>(before: Held<T>, question: number, error: unknown): Held<T> => ({
  question,
  data: before.question === question ? before.data : undefined,
  error,
  loading: false,
  stale: false,
});
