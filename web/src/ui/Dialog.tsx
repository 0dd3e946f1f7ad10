// A modal dialog. It uses the browser's dialog element, so that Escape, focus and screen readers work as usual.
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon } from "./Icon";

type Shown = {
  title: string;
  close: () => void;
  children: ReactNode;
  wide?: boolean;
  /** Something was typed that closing would throw away: Escape and the cross ask first. */
  dirty?: boolean;
};

/** The element to focus first: the first text field, else the first button, which cancels. */
const BEGIN =
  ".dialog-body :is(textarea, input:not([type=checkbox], [type=radio], [type=search], [type=file], [disabled])), .dialog-body > footer button";

export function Dialog({ title, close, children, wide = false, dirty = false }: Shown) {
  const [asking, setAsking] = useState(false);
  const leave = () => (dirty ? setAsking(true) : close());
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    // The browser would begin at the cross: React's autoFocus came while the dialog was not to be seen yet.
    ref.current?.querySelector<HTMLElement>(BEGIN)?.focus();
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
        event.stopPropagation(); // of a dialog in this one
        event.preventDefault();
        leave();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="icon" aria-label="Close" onClick={leave}>
          <Icon name="close" />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
      {asking && (
        <Confirm title="Discard what you typed?" yes="Discard" act={close} close={() => setAsking(false)}>
          <p>It is not saved yet.</p>
        </Confirm>
      )}
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
