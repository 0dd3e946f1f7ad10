// One whiteboard: its members, its lines with authors, and a field to add a line.
import { type FormEvent, useState } from "react";
import type { Entry } from "../../api";
import { get, post } from "../../api/client";
import { usePages } from "../../api/load";
import { useApp } from "../../app/context";
import { Empty, Failure, Loading } from "../../ui/states";
import { VirtualList } from "../../ui/VirtualList";
import css from "./agents.module.css";
import { EntryRow } from "./EntryRow";
import { useEditing } from "./editing";
import { RemoveEntry } from "./RemoveEntry";
import { Share } from "./Share";

type Props = { agent: string; board: string; members: string[]; shared: () => void; changed: () => void };

export function Board({ agent, board, members, shared, changed }: Props) {
  const { user, may } = useApp();
  const [sharing, setSharing] = useState(false);
  const [removing, setRemoving] = useState<Entry>();
  const scope = { user, agent };
  const list = usePages<Entry>(
    (after, signal) =>
      get("/api/entries", { query: { ...scope, kind: "whiteboard", board, limit: 100, after }, signal }),
    [user, agent, board],
  );
  const onSaved = (entry: Entry) => {
    list.edit((items) => items.map((item) => (item.id === entry.id ? entry : item)));
    changed();
  };
  const editing = useEditing(user, onSaved);
  return (
    <section className={css.board} aria-label={`Whiteboard ${board}`}>
      <p className={css.boardMembers}>
        <span className="quiet">Shared by</span>
        {members.map((name) => (
          <span key={name} className="chip">
            {name}
          </span>
        ))}
        {may("write") && (
          <button type="button" onClick={() => setSharing(true)}>
            Manage access
          </button>
        )}
      </p>
      {may("write") && (
        <Write
          agent={agent}
          board={board}
          added={(entry) => {
            list.edit((items) => [entry, ...items]);
            changed();
          }}
        />
      )}
      {list.items.length > 0 && (
        <VirtualList
          items={list.items}
          keyOf={(entry) => entry.id}
          size={84}
          label={`Lines of ${board}`}
          className={`${css.entries} ${css.boardLines}`}
          nearEnd={list.more}
          stale={list.stale}
        >
          {(entry) => (
            <EntryRow entry={entry} editing={editing} onSaved={onSaved} remove={setRemoving} title={entry.agent} />
          )}
        </VirtualList>
      )}
      {!list.loading && !list.error && list.items.length === 0 && (
        <Empty title="The board is empty">
          <p>Agents write here on their own; you can add the first line.</p>
        </Empty>
      )}
      {list.error ? <Failure error={list.error} retry={list.retry} /> : null}
      {list.loading && !list.items.length && <Loading label="Loading the board" />}
      {sharing && (
        <Share agent={agent} board={board} members={members} close={() => setSharing(false)} shared={shared} />
      )}
      {removing && (
        <RemoveEntry
          entry={removing}
          scope={scope}
          close={() => setRemoving(undefined)}
          onRemoved={(ids) => {
            list.edit((items) => items.filter((item) => !ids.has(item.id)));
            changed();
          }}
        />
      )}
    </section>
  );
}

/** Add a line in the agent's name. */
function Write({ agent, board, added }: { agent: string; board: string; added: (entry: Entry) => void }) {
  const { user } = useApp();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const save = async (event?: FormEvent) => {
    event?.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      added(await post("/api/entries", { query: { user, agent }, body: { content: text, kind: "whiteboard", board } }));
      setText((now) => (now.startsWith(text) ? now.slice(text.length) : now)); // the user may have typed more
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return (
    <form className={css.boardWrite} onSubmit={save}>
      <textarea
        rows={2}
        aria-label={`A line for ${board}, as ${agent}`}
        placeholder={`Write as ${agent}`}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" className="primary" disabled={busy || !text.trim()}>
        {busy ? "Writing…" : "Write"}
      </button>
      {error ? <Failure error={error} retry={() => save()} /> : null}
    </form>
  );
}
