// An agent's notes about a user: read, edit, history. Changes by others appear without a reload.
import { useState } from "react";
import { remove } from "../../../api/client";
import { useWho } from "../../../app/who";
import { Confirm } from "../../../ui/Dialog";
import { Icon } from "../../../ui/Icon";
import { Failure, Loading } from "../../../ui/states";
import { count, Time } from "../../../ui/time";
import { say } from "../../../ui/toast";
import { AgentPicker, useAgent } from "../AgentPicker";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { draftOf, keepDraft } from "./draft";
import { Editor } from "./Editor";
import { History } from "./History";
import { type Live, type NotesOwner, type Text, useNotes } from "./live";
import { Reader } from "./Reader";
import { who } from "./words";

export function Notes() {
  const { user } = useWho();
  const { agent, names, choose, error, retry } = useAgent();
  if (!agent) return error ? <Failure error={error} retry={retry} /> : <Loading />;
  return (
    <Shown
      key={`${user}\n${agent}`}
      whose={{ user, agent }}
      picker={<AgentPicker agent={agent} names={names} choose={choose} />}
    />
  );
}

function Shown({ whose, picker }: { whose: NotesOwner; picker: React.ReactNode }) {
  const live = useNotes(whose.user, whose.agent);
  const { may } = useWho();
  const { query, ask } = useAsked();
  const view = query.get("view");
  const read = () => ask({ view: undefined, v: undefined, against: undefined });
  const { note } = live;
  return (
    <>
      <div className="toolbar">
        {picker}
        {note && <Facts note={note} hearing={live.hearing} />}
        {note && !view && <Deeds whose={whose} live={live} note={note} />}
        {view === "history" && (
          <button type="button" onClick={read}>
            <Icon name="back" /> Back to the notes
          </button>
        )}
      </div>
      {live.error ? <Failure error={live.error} retry={live.reload} /> : null}
      {!note && !live.error && <Loading />}
      {note && view === "history" && <History whose={whose} live={live} note={note} />}
      {note && view === "edit" && may("write") && <Editor whose={whose} live={live} note={note} close={read} />}
      {note && view !== "history" && !(view === "edit" && may("write")) && (
        <>
          {may("write") && <Unsaved whose={whose} edit={() => ask({ view: "edit" })} />}
          <Reader agent={whose.agent} live={live} note={note} edit={() => ask({ view: "edit" })} />
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
          {note.by && <> by {who(note.by)}</>}
          {note.tokens !== undefined && <> · {count(note.tokens)} tokens</>} ·{" "}
        </>
      )}
      <span role="status" className={hearing ? css.live : `${css.live} ${css.lost}`}>
        {hearing ? "live" : "not connected, trying again"}
      </span>
    </p>
  );
}

function Deeds({ whose, live, note }: { whose: NotesOwner; live: Live; note: Text }) {
  const { may } = useWho();
  const { ask } = useAsked();
  const [clearing, setClearing] = useState(false);
  return (
    <>
      {may("delete") && note.text !== "" && (
        <button type="button" onClick={() => setClearing(true)}>
          <Icon name="remove" /> Clear
        </button>
      )}
      {note.version > 0 && (
        <button type="button" onClick={() => ask({ view: "history" })}>
          <Icon name="history" /> History
        </button>
      )}
      {may("write") && note.text !== "" && (
        <button type="button" className="primary" onClick={() => ask({ view: "edit" })}>
          <Icon name="edit" /> Edit
        </button>
      )}
      {clearing && <Clearing whose={whose} live={live} note={note} close={() => setClearing(false)} />}
    </>
  );
}

function Clearing({ whose, live, note, close }: { whose: NotesOwner; live: Live; note: Text; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const act = async () => {
    setBusy(true);
    try {
      live.take(await remove("/api/notes", { query: { ...whose, if_version: note.version } }));
      say("The notes are empty. Earlier versions are kept.");
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title="Clear the notes?" yes="Clear them" busy={busy} act={act} close={close}>
      <p>All of the text is removed from {whose.agent}’s prompt. The versions stay, and any of them can be restored.</p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}

/** Something was typed here before and never saved. */
function Unsaved({ whose, edit }: { whose: NotesOwner; edit: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(whose.user, whose.agent));
  if (!draft) return null;
  return (
    <div className={css.notice} role="status">
      <p>What you typed here is not saved yet. It began from version {draft.base.version}.</p>
      <div className="actions">
        <button
          type="button"
          className="plain"
          onClick={() => {
            keepDraft(whose.user, whose.agent, null);
            setDraft(null);
            say("Draft discarded.", () => {
              keepDraft(whose.user, whose.agent, draft);
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
