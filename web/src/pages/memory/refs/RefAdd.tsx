// Store large content as a reference: pasted text or a file, byte for byte.
import { type DragEvent, type FormEvent, useRef, useState } from "react";
import { address } from "../../../api/client";
import { upload } from "../../../api/upload";
import { useApp } from "../../../app/context";
import { Dialog } from "../../../ui/Dialog";
import { Field } from "../../../ui/Field";
import { Failure } from "../../../ui/states";
import { bytes } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import css from "../memory.module.css";

export function RefAdd({ added, close }: { added: () => void; close: () => void }) {
  const { user } = useApp();
  const [text, setText] = useState("");
  const [file, setFile] = useState<File>();
  const [description, setDescription] = useState("");
  const [type, setType] = useState("note");
  const [part, setPart] = useState<number>();
  const [error, setError] = useState<unknown>();
  const key = useRef(crypto.randomUUID());
  const stop = useRef(new AbortController());
  const content: Blob | undefined = file ?? (text ? new Blob([text]) : undefined);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!content) return;
    setError(undefined);
    setPart(0);
    try {
      const url = address("/api/refs", {}, { user, description, type });
      const options = { key: key.current, signal: stop.current.signal, progress: setPart };
      notify(`Stored as ${await upload<string>(url, content, options)}.`);
      added();
      close();
    } catch (failure) {
      if (stop.current.signal.aborted) return;
      setError(failure);
      setPart(undefined);
    }
  };
  const change = (apply: () => void) => {
    key.current = crypto.randomUUID(); // different content is a different request
    apply();
  };
  const requestClose = () => {
    stop.current.abort();
    close();
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    const [first] = event.dataTransfer.files;
    if (first) change(() => setFile(first));
  };
  return (
    <Dialog title="Add a reference" close={requestClose} dirty={!!content || !!description}>
      <form onSubmit={submit} onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
        {file ? (
          <p className="toolbar">
            <span className={css.grow}>
              <b>{file.name}</b>, {bytes(file.size)}
            </span>
            <button type="button" onClick={() => change(() => setFile(undefined))}>
              Another
            </button>
          </p>
        ) : (
          <>
            <Field label="Content" hint="Paste it, drop a file here, or choose one below.">
              <textarea
                className={css.mono}
                rows={8}
                value={text}
                autoFocus
                onChange={(event) => change(() => setText(event.target.value))}
              />
            </Field>
            <Field label="Or a file">
              <input type="file" onChange={(event) => change(() => setFile(event.target.files?.[0]))} />
            </Field>
          </>
        )}
        <Field label="Description" hint="If empty, it is generated from the content.">
          <input value={description} onChange={(event) => change(() => setDescription(event.target.value))} />
        </Field>
        <Field label="Type">
          <input value={type} onChange={(event) => change(() => setType(event.target.value))} required />
        </Field>
        {part !== undefined && <progress value={part < 1 ? part : undefined} aria-label="Sending" />}
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={requestClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={!content || part !== undefined}>
            Store
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
