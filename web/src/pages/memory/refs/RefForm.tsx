// Edit the description of a reference, and whether it is listed in prompts.
import { type FormEvent, useState } from "react";
import { patch } from "../../../api/client";
import type { Ref } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Dialog } from "../../../ui/Dialog";
import { Field } from "../../../ui/Field";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";

export function RefForm({ of, saved, close }: { of: Ref; saved: (ref: Ref) => void; close: () => void }) {
  const { user } = useApp();
  const [summary, setSummary] = useState(of.summary);
  const [type, setType] = useState(of.type);
  const [active, setActive] = useState(of.is_active);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const dirty = summary !== of.summary || type !== of.type || active !== of.is_active;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const body = { summary, type, is_active: active };
      saved(await patch("/api/refs/{key}", { path: { key: of.key }, query: { user }, body }));
      notify("The reference is changed.");
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Edit the reference" close={close} dirty={dirty}>
      <form onSubmit={submit}>
        <Field label="Summary" hint="The description of the reference in prompts.">
          <textarea
            rows={3}
            value={summary}
            onChange={(event) => setSummary(event.target.value)}
            readOnly={busy}
            autoFocus
            required
          />
        </Field>
        <Field label="Type">
          <input value={type} onChange={(event) => setType(event.target.value)} required />
        </Field>
        <label className="check">
          <input type="checkbox" checked={active} onChange={(event) => setActive(event.target.checked)} /> Active: list
          it in prompts
        </label>
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy}>
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
