// A notification that says for a few seconds what was done, also for screen readers.
import { useSyncExternalStore } from "react";

type Toast = { id: number; text: string; undo?: () => void; label: string };
let shown: Toast[] = [];
let last = 0;
const heard = new Set<() => void>();
const set = (toasts: Toast[]) => {
  shown = toasts;
  for (const listener of heard) listener();
};

/** Say that something was done; with `undo`, offer to take it back, or what else its `label` says. */
export function say(text: string, undo?: () => void, label = "Undo"): void {
  const id = ++last;
  set([...shown, { id, text, undo, label }]);
  setTimeout(() => set(shown.filter((toast) => toast.id !== id)), undo ? 8000 : 4000);
}

/** Run the action of a notification once, and close the notification. */
function act(toast: Toast): void {
  set(shown.filter((other) => other.id !== toast.id));
  toast.undo?.();
}

export function Toasts() {
  const toasts = useSyncExternalStore(
    (listener) => {
      heard.add(listener);
      return () => heard.delete(listener);
    },
    () => shown,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <p key={toast.id}>
          {toast.text}
          {toast.undo && (
            <button type="button" onClick={() => act(toast)}>
              {toast.label}
            </button>
          )}
        </p>
      ))}
    </div>
  );
}
