// A dialog over the page: the browser's own, so that Escape, focus and screen readers work as everywhere.
import { type ReactNode, useEffect, useId, useRef } from "react";
import { Icon } from "./Icon";

type Shown = { title: string; close: () => void; children: ReactNode; wide?: boolean };

export function Dialog({ title, close, children, wide = false }: Shown) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    return () => {
      before?.focus();
      if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="icon" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
    </dialog>
  );
}

type Asked = { title: string; children: ReactNode; yes: string; busy?: boolean; act: () => void; close: () => void };

/** Ask before something is gone. */
export function Confirm({ title, children, yes, busy = false, act, close }: Asked) {
  return (
    <Dialog title={title} close={close}>
      {children}
      <footer className="actions">
        <button type="button" onClick={close} autoFocus>
          Cancel
        </button>
        <button type="button" className="danger" onClick={act} disabled={busy}>
          {yes}
        </button>
      </footer>
    </Dialog>
  );
}
