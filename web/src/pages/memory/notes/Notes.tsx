// An agent's notes about a user: read, edit, history. Changes by others appear without a reload.
import { useState } from "react";
import { remove } from "../../../api/client";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { Icon } from "../../../ui/Icon";
import { Failure, Loading } from "../../../ui/states";
import { count, Time } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import { AgentPicker, useAgent } from "../AgentPicker";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { draftOf, keepDraft } from "./draft";
import { Editor } from "./Editor";
import { History } from "./History";
import { type Live, type NotesOwner, type Text, useNotes } from "./live";
import { Reader } from "./Reader";
import { sourceName } from "./words";

export function Notes() {
  const { user } = useApp();
  const { agent, names, choose, error, retry } = useAgent();
  if (!agent) return error ? <Failure error={error} retry={retry} /> : <Loading />;
  return (
    <NotesOfAgent
      key={`${user}\n${agent}`}
      owner={{ user, agent }}
      picker={<AgentPicker agent={agent} names={names} choose={choose} />}
    />
  );
}

function NotesOfAgent({ owner, picker }: { owner: NotesOwner; picker: React.ReactNode }) {
  const live = useNotes(owner.user, owner.agent);
  const { may } = useApp();
  const { query, change } = usePageState();
  const view = query.get("view");
  const read = () => change({ view: undefined, v: undefined, against: undefined });
  const { note } = live;
  return (
    <>
      <div className="toolbar">
        {picker}
        {note && <Facts note={note} hearing={live.hearing} />}
        {note && !view && <Actions owner={owner} live={live} note={note} />}
        {view === "history" && (
          <button type="button" onClick={read}>
            <Icon name="back" /> Back to the notes
          </button>
        )}
      </div>
      {live.error ? <Failure error={live.error} retry={live.reload} /> : null}
      {!note && !live.error && <Loading />}
      {note && view === "history" && <History owner={owner} live={live} note={note} />}
      {note && view === "edit" && may("write") && <Editor owner={owner} live={live} note={note} close={read} />}
      {note && view !== "history" && !(view === "edit" && may("write")) && (
        <>
          {may("write") && <Unsaved owner={owner} edit={() => change({ view: "edit" })} />}
          <Reader agent={owner.agent} live={live} note={note} edit={() => change({ view: "edit" })} />
        </>
      )}
    </>
  );
}

function Facts({ note, hearing }: { note: Text; hearing: boolean }) {
  return (
    <p className={`quiet ${css.grow}`}>
      {note.version > 0 && (
        <>
          Version {note.version}
          {note.at && (
            <>
              , <Time at={note.at} />
            </>
          )}
          {note.by && <> by {sourceName(note.by)}</>}
          {note.tokens !== undefined && <> · {count(note.tokens)} tokens</>} ·{" "}
        </>
      )}
      <span role="status" className={hearing ? css.live : `${css.live} ${css.lost}`}>
        {hearing ? "live" : "not connected, trying again"}
      </span>
    </p>
  );
}

function Actions({ owner, live, note }: { owner: NotesOwner; live: Live; note: Text }) {
  const { may } = useApp();
  const { change } = usePageState();
  const [clearing, setClearing] = useState(false);
  return (
    <>
      {may("delete") && note.text !== "" && (
        <button type="button" onClick={() => setClearing(true)}>
          <Icon name="remove" /> Clear
        </button>
      )}
      {note.version > 0 && (
        <button type="button" onClick={() => change({ view: "history" })}>
          <Icon name="history" /> History
        </button>
      )}
      {may("write") && note.text !== "" && (
        <button type="button" className="primary" onClick={() => change({ view: "edit" })}>
          <Icon name="edit" /> Edit
        </button>
      )}
      {clearing && <ClearDialog owner={owner} live={live} note={note} close={() => setClearing(false)} />}
    </>
  );
}

function ClearDialog({ owner, live, note, close }: { owner: NotesOwner; live: Live; note: Text; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirmClear = async () => {
    setBusy(true);
    try {
      live.apply(await remove("/api/notes", { query: { ...owner, if_version: note.version } }));
      notify("The notes are empty. Earlier versions are kept.");
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title="Clear the notes?" yes="Clear them" busy={busy} onConfirm={confirmClear} close={close}>
      <p>The text is removed from {owner.agent}’s prompt. Earlier versions stay and can be restored.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}

/** The notice about an unsaved draft. */
function Unsaved({ owner, edit }: { owner: NotesOwner; edit: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(owner.user, owner.agent));
  if (!draft) return null;
  return (
    <div className={css.notice} role="status">
      <p>You have an unsaved draft. It is based on version {draft.base.version}.</p>
      <div className="actions">
        <button
          type="button"
          className="plain"
          onClick={() => {
            keepDraft(owner.user, owner.agent, null);
            setDraft(null);
            notify("Draft discarded.", () => {
              keepDraft(owner.user, owner.agent, draft);
              setDraft(draft);
            });
          }}
        >
          Discard
        </button>
        <button type="button" onClick={edit}>
          Continue
        </button>
      </div>
    </div>
  );
}
