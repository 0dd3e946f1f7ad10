// Loading, empty and error states.
import type { ReactNode } from "react";
import { errorMessage, Problem } from "../api/client";

export function Loading({ label = "Loading" }: { label?: string }) {
  return (
    <p className="loading" role="status">
      <span className="visually-hidden">{label}…</span>
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
      <p>{errorMessage(error)}</p>
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

/** An empty list: what it would contain, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}
