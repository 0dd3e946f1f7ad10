// Import entries from a file: preview them first, then send them in batches, each entry once.
import { type DragEvent, useRef, useState } from "react";
import { get, Problem, post } from "../../api/client";
import { Dialog } from "../../ui/Dialog";
import { useMounted } from "../../ui/mounted";
import { Failure } from "../../ui/states";
import { count } from "../../ui/time";
import { notify } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";
import { batches, failedIndex, markExisting, type ParsedEntry, read } from "./importing";

type Props = { scope: Scope; close: () => void; changed: () => void };
type Failed = { error: unknown; entry?: ParsedEntry };
const MAX_FILE_BYTES = 64 * 1024 * 1024;

export function Import({ scope, close, changed }: Props) {
  const [entries, setEntries] = useState<ParsedEntry[]>();
  const [name, setName] = useState("");
  const [done, setDone] = useState(0);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Failed>();
  const remaining = useRef<ParsedEntry[]>([]);
  const mounted = useMounted();

  const open = async (file: File) => {
    setFailed(undefined);
    setName(file.name);
    try {
      if (file.size > MAX_FILE_BYTES)
        throw new Error("The file is larger than 64 MiB. Import it with: memorist entries add-many");
      const [text, present] = await Promise.all([file.text(), get("/api/entries/export", { query: scope })]);
      setEntries(markExisting(read(text), present));
    } catch (error) {
      setFailed({ error });
    }
  };
  const newEntries = entries?.filter((item) => !item.error && !item.same) ?? [];
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    while (remaining.current.length && mounted.current) {
      const [batch = []] = batches(remaining.current);
      try {
        await post("/api/entries/batch", {
          query: scope,
          body: { entries: batch.map((item) => item.entry as { content: string }) },
        });
      } catch (error) {
        const place = error instanceof Problem ? failedIndex(error.field) : null;
        setFailed({ error, entry: place === null ? undefined : batch[place] });
        setBusy(false);
        changed();
        return;
      }
      remaining.current = remaining.current.slice(batch.length);
      setDone((previous) => previous + batch.length);
    }
    changed();
    if (remaining.current.length) return notify(`Stopped: ${count(remaining.current.length)} were not imported.`);
    notify(`${count(newEntries.length)} ${newEntries.length === 1 ? "entry" : "entries"} imported.`);
    close();
  };
  const start = () => {
    remaining.current = newEntries;
    setDone(0);
    run();
  };
  const skip = () => {
    remaining.current = remaining.current.filter((item) => item !== failed?.entry);
    setEntries((previous) =>
      previous?.map((item) => (item === failed?.entry ? { ...item, error: "was left out" } : item)),
    );
    run();
  };
  return (
    <Dialog title="Import entries" close={close} wide>
      {!entries && <Choose open={open} />}
      {entries && (
        <p>
          <b>{name}</b>{" "}
          <button type="button" className="link" disabled={busy} onClick={() => setEntries(undefined)}>
            another file
          </button>
        </p>
      )}
      {entries && <Preview entries={entries} agent={scope.agent} user={scope.user} />}
      {(busy || done > 0) && (
        <p role="status">
          <progress max={newEntries.length || 1} value={done} aria-label="Imported" /> {count(done)} of{" "}
          {count(newEntries.length)} imported
        </p>
      )}
      {failed ? (
        <Failure error={failed.error} retry={entries ? run : undefined}>
          {failed.entry && (
            <p>
              That is {failed.entry.position}: “{String(failed.entry.entry.content).slice(0, 80)}”{" "}
              <button type="button" onClick={skip}>
                Skip and continue
              </button>
            </p>
          )}
        </Failure>
      ) : null}
      {entries && !failed && (
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="button" className="primary" disabled={busy || newEntries.length === 0} onClick={start}>
            {busy ? "Importing…" : `Import ${count(newEntries.length)}`}
          </button>
        </footer>
      )}
    </Dialog>
  );
}

function Choose({ open }: { open: (file: File) => void }) {
  const [over, setOver] = useState(false);
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const file = event.dataTransfer.files[0];
    if (file) open(file);
  };
  return (
    <label
      className={over ? `${css.drop} ${css.over}` : css.drop}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <span>Drop a file here, or choose one.</span>
      <input
        type="file"
        aria-label="File to import"
        accept=".json,.jsonl,.ndjson,application/json,text/plain"
        onChange={(event) => event.target.files?.[0] && open(event.target.files[0])}
      />
      <span className="quiet">
        A file from Export: a JSON list of entries, or one JSON object per line. Only <code>content</code> is required;{" "}
        <code>kind</code> is journal or core.
      </span>
    </label>
  );
}

function Preview({ entries, agent, user }: { entries: ParsedEntry[]; agent: string; user?: string }) {
  const fresh = entries.filter((item) => !item.error && !item.same);
  const invalid = entries.filter((item) => item.error);
  const same = entries.filter((item) => item.same);
  const core = fresh.filter((item) => item.entry.kind === "core").length;
  return (
    <div className={css.preview}>
      <p>
        {count(fresh.length)} to import into the memory of <b>{agent}</b>
        {user ? ` with ${user}` : ""} ({count(core)} core, {count(fresh.length - core)} journal).
        {same.length > 0 && ` Skipped, because they exist already or are repeated: ${count(same.length)}.`}
      </p>
      {invalid.length > 0 && (
        <section aria-label="What cannot be imported">
          <h3>{count(invalid.length)} cannot be imported and are skipped</h3>
          <ul>
            {invalid.slice(0, 50).map((item) => (
              <li key={item.position}>
                <b className={css.wrongWhere}>{item.position}</b> {item.error}
              </li>
            ))}
            {invalid.length > 50 && <li className="quiet">and {count(invalid.length - 50)} more</li>}
          </ul>
        </section>
      )}
      {fresh.length > 0 && (
        <section aria-label="What would be imported">
          <h3>{fresh.length > 10 ? "The first ten" : "What would be imported"}</h3>
          <ul>
            {fresh.slice(0, 10).map((item) => (
              <li key={item.position}>
                <span className="chip">{String(item.entry.kind ?? "journal")}</span>{" "}
                {String(item.entry.content).slice(0, 160)}
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
