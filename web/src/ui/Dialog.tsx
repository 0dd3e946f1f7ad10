// A modal dialog. It uses the browser's dialog element, so that Escape, focus and screen readers work as usual.
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon } from "./Icon";

type Props = {
  title: string;
  close: () => void;
  children: ReactNode;
  wide?: boolean;
  /** Closing would discard typed text: Escape and the close button ask first. */
  dirty?: boolean;
};

/** The element to focus first: the first text field, else the first button, which cancels. */
const FIRST_FOCUS =
  ".dialog-body :is(textarea, input:not([type=checkbox], [type=radio], [type=search], [type=file], [disabled])), .dialog-body > footer button";

export function Dialog({ title, close, children, wide = false, dirty = false }: Props) {
  const [asking, setAsking] = useState(false);
  const requestClose = () => (dirty ? setAsking(true) : close());
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const previousFocus = document.activeElement as HTMLElement | null;
    ref.current?.showModal();
    // The browser would focus the close button, because React's autoFocus runs before the dialog is visible.
    ref.current?.querySelector<HTMLElement>(FIRST_FOCUS)?.focus();
    return () => {
      previousFocus?.focus();
      if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.stopPropagation(); // it may come from a nested dialog
        event.preventDefault();
        requestClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="icon" aria-label="Close" onClick={requestClose}>
          <Icon name="close" />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
      {asking && (
        <Confirm title="Discard what you typed?" yes="Discard" onConfirm={close} close={() => setAsking(false)}>
          <p>It is not saved yet.</p>
        </Confirm>
      )}
    </dialog>
  );
}

type ConfirmProps = {
  title: string;
  children: ReactNode;
  yes: string;
  busy?: boolean;
  onConfirm: () => void;
  close: () => void;
};

/** A confirmation before something is removed. */
export function Confirm({ title, children, yes, busy = false, onConfirm, close }: ConfirmProps) {
  return (
    <Dialog title={title} close={close}>
      {children}
      <footer className="actions">
        <button type="button" onClick={close} autoFocus>
          Cancel
        </button>
        <button type="button" className="danger" onClick={onConfirm} disabled={busy}>
          {yes}
        </button>
      </footer>
    </Dialog>
  );
}
