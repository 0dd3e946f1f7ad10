// A notification that says for a few seconds what was done, also for screen readers.
import { useSyncExternalStore } from "react";

type Toast = { id: number; text: string; undo?: () => void; label: string };
let shown: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();
const set = (toasts: Toast[]) => {
  shown = toasts;
  for (const listener of listeners) listener();
};

/** Show a notification; with `undo`, add a button with the text `label` that calls it. */
export function notify(text: string, undo?: () => void, label = "Undo"): void {
  const id = ++last;
  set([...shown, { id, text, undo, label }]);
  setTimeout(() => set(shown.filter((toast) => toast.id !== id)), undo ? 8000 : 4000);
}

/** Run the action of a notification once, and close the notification. */
function runAction(toast: Toast): void {
  set(shown.filter((other) => other.id !== toast.id));
  toast.undo?.();
}

export function Toasts() {
  const toasts = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => shown,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <p key={toast.id}>
          {toast.text}
          {toast.undo && (
            <button type="button" onClick={() => runAction(toast)}>
              {toast.label}
            </button>
          )}
        </p>
      ))}
    </div>
  );
}
