// The versions of the notes: who changed what and when, the diff between any two, and restore.
import { useState } from "react";
import { get, post } from "../../../api/client";
import type { NoteVersion } from "../../../api/index";
import { useLoad, usePages } from "../../../api/load";
import { useWho } from "../../../app/who";
import { Confirm } from "../../../ui/Dialog";
import { Link } from "../../../ui/Link";
import { Markdown } from "../../../ui/Markdown";
import { PagedList } from "../../../ui/PagedList";
import { Empty, Failure, Loading } from "../../../ui/states";
import { Time } from "../../../ui/time";
import { say } from "../../../ui/toast";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { unified } from "./diff";
import type { Live, NotesOwner, Text } from "./live";
import { how, who } from "./words";

type Shown = { whose: NotesOwner; live: Live; note: Text };

export function History({ whose, live, note }: Shown) {
  const { query, href } = useAsked();
  const pages = usePages<NoteVersion>(
    (after, signal) => get("/api/notes/history", { query: { ...whose, limit: 50, after }, signal }),
    [whose.user, whose.agent, note.version],
  );
  const version = Number(query.get("v")) || note.version;
  if (note.version === 0) return <Empty title="No versions yet" />;
  return (
    <div className={css.history}>
      <div>
        <h2>Versions</h2>
        <PagedList
          pages={pages}
          keyOf={(one) => one.version}
          size={58}
          label="Versions, newest first"
          className={css.versions}
          empty={null}
        >
          {(one) => (
            <Link
              href={href({ v: String(one.version), against: undefined })}
              aria-current={one.version === version ? "true" : undefined}
            >
              <b>Version {one.version}</b>
              <span className="quiet">
                <Time at={one.created_at} />
              </span>
              <span className="quiet">
                {how(one.operation, one.version)} by {who(one.source)}
              </span>
            </Link>
          )}
        </PagedList>
      </div>
      <Version whose={whose} live={live} note={note} version={version} known={pages.items} />
    </div>
  );
}

type One = Shown & { version: number; known: NoteVersion[] };

/** One version: what it changed, or all of its text. */
function Version({ whose, live, note, version, known }: One) {
  const { may } = useWho();
  const { query, ask } = useAsked();
  const [restoring, setRestoring] = useState(false);
  const [whole, setWhole] = useState(false);
  const against = query.get("against");
  const text = known.find((one) => one.version === version)?.text;
  return (
    <section aria-label={`Version ${version}`}>
      <div className="toolbar">
        <h2 className={css.grow}>Version {version}</h2>
        <label className={css.picker}>
          <span>Compared with</span>
          <select value={against ?? ""} onChange={(event) => ask({ against: event.target.value || undefined }, true)}>
            <option value="">the version before</option>
            {known.map(
              (one) =>
                one.version !== version && (
                  <option key={one.version} value={one.version}>
                    version {one.version}
                  </option>
                ),
            )}
          </select>
        </label>
        {text !== undefined && (
          <button type="button" aria-pressed={whole} onClick={() => setWhole(!whole)}>
            Whole text
          </button>
        )}
        {may("write") && version !== note.version && (
          <button type="button" onClick={() => setRestoring(true)}>
            Restore
          </button>
        )}
      </div>
      {whole && text !== undefined ? (
        <div className="card">{text.trim() ? <Markdown text={text} /> : <p className="quiet">It was empty.</p>}</div>
      ) : (
        <Difference whose={whose} version={version} against={against === null ? undefined : Number(against)} />
      )}
      {restoring && (
        <Restoring whose={whose} live={live} note={note} version={version} close={() => setRestoring(false)} />
      )}
    </section>
  );
}

function Difference({ whose, version, against }: { whose: NotesOwner; version: number; against: number | undefined }) {
  const diff = useLoad(
    (signal) => get("/api/notes/diff", { query: { ...whose, version, against }, signal }),
    [whose.user, whose.agent, version, against],
  );
  if (diff.error) return <Failure error={diff.error} retry={diff.reload} />;
  if (diff.data === undefined || diff.loading) return <Loading />;
  const lines = unified(diff.data);
  if (!lines.length) return <p className="quiet">The two are the same.</p>;
  return (
    <div className={`${css.diff} card`}>
      {lines.map((line, place) =>
        line.sign === "@" ? (
          place > 0 && <hr key={place} />
        ) : (
          <code key={place} className={line.sign === "+" ? css.added : line.sign === "-" ? css.removed : undefined}>
            {line.sign} {line.text}
          </code>
        ),
      )}
    </div>
  );
}

function Restoring({ whose, live, note, version, close }: Shown & { version: number; close: () => void }) {
  const { ask } = useAsked();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const act = async () => {
    setBusy(true);
    try {
      const written = await post("/api/notes/restore", { query: whose, body: { version, if_version: note.version } });
      live.take(written);
      say(`Restored: version ${written.version} has the text of version ${version}.`);
      ask({ view: undefined, v: undefined, against: undefined });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={`Restore version ${version}?`} yes="Restore" busy={busy} act={act} close={close}>
      <p>The notes become what they were then. What they are now, version {note.version}, stays in the history.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
