// The versions of the notes: who changed what and when, the diff between any two, and restore.
import { useState } from "react";
import { get, post } from "../../../api/client";
import type { NoteVersion } from "../../../api/index";
import { useLoad, usePages } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { Link } from "../../../ui/Link";
import { Markdown } from "../../../ui/Markdown";
import { PagedList } from "../../../ui/PagedList";
import { Empty, Failure, Loading } from "../../../ui/states";
import { Time } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { unified } from "./diff";
import type { Live, NotesOwner, Text } from "./live";
import { operationName, sourceName } from "./words";

type Props = { owner: NotesOwner; live: Live; note: Text };

export function History({ owner, live, note }: Props) {
  const { query, href } = usePageState();
  const pages = usePages<NoteVersion>(
    (after, signal) => get("/api/notes/history", { query: { ...owner, limit: 50, after }, signal }),
    [owner.user, owner.agent, note.version],
  );
  const version = Number(query.get("v")) || note.version;
  if (note.version === 0) return <Empty title="No versions yet" />;
  return (
    <div className={css.history}>
      <div>
        <h2>Versions</h2>
        <PagedList
          pages={pages}
          keyOf={(item) => item.version}
          size={58}
          label="Versions, newest first"
          className={css.versions}
          empty={null}
        >
          {(item) => (
            <Link
              href={href({ v: String(item.version), against: undefined })}
              aria-current={item.version === version ? "true" : undefined}
            >
              <b>Version {item.version}</b>
              <span className="quiet">
                <Time at={item.created_at} />
              </span>
              <span className="quiet">
                {operationName(item.operation, item.version)} by {sourceName(item.source)}
              </span>
            </Link>
          )}
        </PagedList>
      </div>
      <Version owner={owner} live={live} note={note} version={version} versions={pages.items} />
    </div>
  );
}

type VersionProps = Props & { version: number; versions: NoteVersion[] };

/** One version: its changes, or its whole text. */
function Version({ owner, live, note, version, versions }: VersionProps) {
  const { may } = useApp();
  const { query, change } = usePageState();
  const [restoring, setRestoring] = useState(false);
  const [showWhole, setShowWhole] = useState(false);
  const against = query.get("against");
  const text = versions.find((item) => item.version === version)?.text;
  return (
    <section aria-label={`Version ${version}`}>
      <div className="toolbar">
        <h2 className={css.grow}>Version {version}</h2>
        <label className={css.picker}>
          <span>Compared with</span>
          <select
            value={against ?? ""}
            onChange={(event) => change({ against: event.target.value || undefined }, true)}
          >
            <option value="">the version before</option>
            {versions.map(
              (item) =>
                item.version !== version && (
                  <option key={item.version} value={item.version}>
                    version {item.version}
                  </option>
                ),
            )}
          </select>
        </label>
        {text !== undefined && (
          <button type="button" aria-pressed={showWhole} onClick={() => setShowWhole(!showWhole)}>
            Whole text
          </button>
        )}
        {may("write") && version !== note.version && (
          <button type="button" onClick={() => setRestoring(true)}>
            Restore
          </button>
        )}
      </div>
      {showWhole && text !== undefined ? (
        <div className="card">{text.trim() ? <Markdown text={text} /> : <p className="quiet">It was empty.</p>}</div>
      ) : (
        <Difference owner={owner} version={version} against={against === null ? undefined : Number(against)} />
      )}
      {restoring && (
        <RestoreDialog owner={owner} live={live} note={note} version={version} close={() => setRestoring(false)} />
      )}
    </section>
  );
}

function Difference({ owner, version, against }: { owner: NotesOwner; version: number; against: number | undefined }) {
  const diff = useLoad(
    (signal) => get("/api/notes/diff", { query: { ...owner, version, against }, signal }),
    [owner.user, owner.agent, version, against],
  );
  if (diff.error) return <Failure error={diff.error} retry={diff.reload} />;
  if (diff.data === undefined || diff.loading) return <Loading />;
  const lines = unified(diff.data);
  if (!lines.length) return <p className="quiet">The two versions are the same.</p>;
  return (
    <div className={`${css.diff} card`}>
      {lines.map((line, index) =>
        line.sign === "@" ? (
          index > 0 && <hr key={index} />
        ) : (
          <code key={index} className={line.sign === "+" ? css.added : line.sign === "-" ? css.removed : undefined}>
            {line.sign} {line.text}
          </code>
        ),
      )}
    </div>
  );
}

function RestoreDialog({ owner, live, note, version, close }: Props & { version: number; close: () => void }) {
  const { change } = usePageState();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirmRestore = async () => {
    setBusy(true);
    try {
      const written = await post("/api/notes/restore", { query: owner, body: { version, if_version: note.version } });
      live.apply(written);
      notify(`Restored: version ${written.version} has the text of version ${version}.`);
      change({ view: undefined, v: undefined, against: undefined });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Restore version ${version}?`} yes="Restore" busy={busy} onConfirm={confirmRestore} close={close}>
      <p>The notes get the text of that version. The current version, {note.version}, stays in the history.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
