// Import entries from a file: preview them first, then send them in batches, each entry once.
import { type DragEvent, useRef, useState } from "react";
import { get, Problem, post } from "../../api/client";
import { useAlive } from "../../ui/alive";
import { Dialog } from "../../ui/Dialog";
import { Failure } from "../../ui/states";
import { count } from "../../ui/time";
import { say } from "../../ui/toast";
import css from "./agents.module.css";
import type { Scope } from "./editing";
import { batches, compared, type Given, meant, read } from "./importing";

type Shown = { scope: Scope; close: () => void; changed: () => void };
type Failed = { error: unknown; entry?: Given };
const MOST_BYTES = 64 * 1024 * 1024;

export function Import({ scope, close, changed }: Shown) {
  const [given, setGiven] = useState<Given[]>();
  const [name, setName] = useState("");
  const [done, setDone] = useState(0);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Failed>();
  const left = useRef<Given[]>([]);
  const alive = useAlive();

  const open = async (file: File) => {
    setFailed(undefined);
    setName(file.name);
    try {
      if (file.size > MOST_BYTES)
        throw new Error("The file is larger than 64 MiB. Import it with: retain entries add-many");
      const [text, present] = await Promise.all([file.text(), get("/api/entries/export", { query: scope })]);
      setGiven(compared(read(text), present));
    } catch (error) {
      setFailed({ error });
    }
  };
  const wanted = given?.filter((one) => !one.wrong && !one.same) ?? [];
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    while (left.current.length && alive.current) {
      const [batch = []] = batches(left.current);
      try {
        await post("/api/entries/batch", {
          query: scope,
          body: { entries: batch.map((one) => one.entry as { content: string }) },
        });
      } catch (error) {
        const place = error instanceof Problem ? meant(error.field) : null;
        setFailed({ error, entry: place === null ? undefined : batch[place] });
        setBusy(false);
        changed();
        return;
      }
      left.current = left.current.slice(batch.length);
      setDone((before) => before + batch.length);
    }
    changed();
    if (left.current.length) return say(`Stopped: ${count(left.current.length)} were not imported.`);
    say(`${count(wanted.length)} ${wanted.length === 1 ? "entry" : "entries"} imported.`);
    close();
  };
  const start = () => {
    left.current = wanted;
    setDone(0);
    run();
  };
  const skip = () => {
    left.current = left.current.filter((one) => one !== failed?.entry);
    setGiven((before) => before?.map((one) => (one === failed?.entry ? { ...one, wrong: "was left out" } : one)));
    run();
  };
  return (
    <Dialog title="Import entries" close={close} wide>
      {!given && <Choose open={open} />}
      {given && (
        <p>
          <b>{name}</b>{" "}
          <button type="button" className="link" disabled={busy} onClick={() => setGiven(undefined)}>
            another file
          </button>
        </p>
      )}
      {given && <Preview given={given} agent={scope.agent} user={scope.user} />}
      {(busy || done > 0) && (
        <p role="status">
          <progress max={wanted.length || 1} value={done} aria-label="Imported" /> {count(done)} of{" "}
          {count(wanted.length)} imported
        </p>
      )}
      {failed ? (
        <Failure error={failed.error} retry={given ? run : undefined}>
          {failed.entry && (
            <p>
              That is {failed.entry.where}: “{String(failed.entry.entry.content).slice(0, 80)}”{" "}
              <button type="button" onClick={skip}>
                Skip and continue
              </button>
            </p>
          )}
        </Failure>
      ) : null}
      {given && !failed && (
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="button" className="primary" disabled={busy || wanted.length === 0} onClick={start}>
            {busy ? "Importing…" : `Import ${count(wanted.length)}`}
          </button>
        </footer>
      )}
    </Dialog>
  );
}

function Choose({ open }: { open: (file: File) => void }) {
  const [over, setOver] = useState(false);
  const drop = (event: DragEvent) => {
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
      onDrop={drop}
    >
      <span>Drop a file here, or choose one.</span>
      <input
        type="file"
        aria-label="File to import"
        accept=".json,.jsonl,.ndjson,application/json,text/plain"
        onChange={(event) => event.target.files?.[0] && open(event.target.files[0])}
      />
      <span className="quiet">
        What Export gives: a JSON list of entries, or one JSON object a line. Only <code>content</code> is needed;{" "}
        <code>kind</code> is journal or core.
      </span>
    </label>
  );
}

function Preview({ given, agent, user }: { given: Given[]; agent: string; user?: string }) {
  const fresh = given.filter((one) => !one.wrong && !one.same);
  const wrong = given.filter((one) => one.wrong);
  const same = given.filter((one) => one.same);
  const core = fresh.filter((one) => one.entry.kind === "core").length;
  return (
    <div className={css.preview}>
      <p>
        {count(fresh.length)} to import into the memory of <b>{agent}</b>
        {user ? ` with ${user}` : ""} ({count(core)} core, {count(fresh.length - core)} journal).
        {same.length > 0 && ` ${count(same.length)} here already, or twice in the file: left out.`}
      </p>
      {wrong.length > 0 && (
        <section aria-label="What cannot be imported">
          <h3>{count(wrong.length)} cannot be imported, and are left out</h3>
          <ul>
            {wrong.slice(0, 50).map((one) => (
              <li key={one.where}>
                <b className={css.wrongWhere}>{one.where}</b> {one.wrong}
              </li>
            ))}
            {wrong.length > 50 && <li className="quiet">and {count(wrong.length - 50)} more</li>}
          </ul>
        </section>
      )}
      {fresh.length > 0 && (
        <section aria-label="What would be imported">
          <h3>{fresh.length > 10 ? "The first ten" : "What would be imported"}</h3>
          <ul>
            {fresh.slice(0, 10).map((one) => (
              <li key={one.where}>
                <span className="chip">{String(one.entry.kind ?? "journal")}</span>{" "}
                {String(one.entry.content).slice(0, 160)}
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
