// Loading, empty and error states.
import type { ReactNode } from "react";
import { Problem, told } from "../api/client";

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p className="loading" role="status">
      <span className="visually-hidden">{what}…</span>
      <i aria-hidden="true" />
      <i aria-hidden="true" />
      <i aria-hidden="true" />
    </p>
  );
}

/** An error message with a retry button. */
export function Failure({ error, retry, children }: { error: unknown; retry?: () => void; children?: ReactNode }) {
  const id = error instanceof Problem ? error.requestId : "";
  return (
    <div className="failure" role="alert">
      <p>{told(error)}</p>
      {id && <p className="quiet">In the server’s log: {id}</p>}
      {children}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Nothing is here yet: what it would be, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}
