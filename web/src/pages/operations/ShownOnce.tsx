// A secret that was just created, to be copied now: it cannot be shown again.
import { type ReactNode, useState } from "react";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import css from "./operations.module.css";

type Props = {
  title: string;
  label: string;
  text: string;
  busy?: boolean;
  close: () => void;
  children?: ReactNode;
};

export function ShownOnce({ title, label, text, busy = false, close, children }: Props) {
  const [copied, setCopied] = useState<boolean | null>(null);
  const [warned, setWarned] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  const requestClose = () => (copied || warned ? busy || close() : setWarned(true));
  return (
    <Dialog title={title} close={requestClose}>
      <p className={css.callout}>Copy it now; it is shown only once.</p>
      <Field label={label}>
        <input readOnly value={text} onFocus={(event) => event.target.select()} className={css.mono} autoFocus />
      </Field>
      <p role="status">
        {copied && "Copied."}
        {copied === false && "The browser does not allow copying. Select it and copy it."}
        {warned && !copied && "You have not copied it here yet. If you have it, close this; it cannot be shown again."}
      </p>
      {children}
      <footer className="actions">
        <button type="button" className="primary" onClick={copy}>
          Copy
        </button>
        <button type="button" onClick={requestClose} disabled={busy}>
          {warned ? "Close" : "Done"}
        </button>
      </footer>
    </Dialog>
  );
}
