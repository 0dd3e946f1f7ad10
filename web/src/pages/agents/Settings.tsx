// An agent's settings. Saving sends the version that was loaded, so that a concurrent change is shown and not overwritten.
import { type FormEvent, useEffect, useRef, useState } from "react";
import type { Agent } from "../../api";
import { get, Problem, patch, post } from "../../api/client";
import { useApp } from "../../app/context";
import { Failure } from "../../ui/states";
import { moment } from "../../ui/time";
import { notify } from "../../ui/toast";
import { AgentForm } from "./AgentForm";
import css from "./agents.module.css";
import { BLANK, type Draft, differences, draftOf, merged, NAMES, written } from "./draft";
import { RemoveAgent } from "./RemoveAgent";

type Props = { name: string; agent: Agent | null; saved: (agent: Agent) => void };

/** Unsaved changes by agent; they survive a change of tab. */
const unsaved = new Map<string, { draft: Draft; base: Draft; version: number }>();

export function Settings({ name, agent, saved }: Props) {
  const { may } = useApp();
  const stored = agent ? draftOf(agent) : BLANK;
  const leftover = unsaved.get(name);
  const restored = leftover && !leftover.version === !agent ? leftover : undefined; // the agent may have been removed or created since
  const [draft, setDraft] = useState<Draft>(restored?.draft ?? stored);
  const [base, setBase] = useState<Draft>(restored?.base ?? stored);
  const [version, setVersion] = useState(restored?.version ?? agent?.version ?? 0);
  const [theirs, setTheirs] = useState<Agent>();
  const [error, setError] = useState<unknown>();
  const [removing, setRemoving] = useState(false);
  const [busy, setBusy] = useState(false);
  const notice = useRef<HTMLDivElement>(null);
  const changed = differences(base, draft).length > 0;
  useEffect(() => {
    if (theirs || error) notice.current?.scrollIntoView({ block: "center" }); // the notice may be out of sight
  }, [theirs, error]);
  useEffect(() => {
    if (changed) unsaved.set(name, { draft, base, version });
    else unsaved.delete(name);
  }, [name, draft, base, version, changed]);
  const applySaved = (now: Agent, text: string, sentDraft?: Draft) => {
    setDraft((mine) => (sentDraft ? merged(sentDraft, mine, draftOf(now)) : draftOf(now))); // keep what was typed during the save
    setBase(draftOf(now));
    setVersion(now.version);
    setTheirs(undefined);
    saved(now);
    notify(text);
  };
  const save = async (content: Draft = draft, over = version) => {
    setBusy(true);
    setError(undefined);
    try {
      applySaved(await send(name, content, over), over ? "Saved." : `${name} is created.`, draft);
    } catch (failed) {
      if (failed instanceof Problem && (failed.status === 412 || failed.status === 409)) {
        await get("/api/agents/{name}", { path: { name } }).then(setTheirs, setError);
      } else setError(failed);
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save();
  };
  return (
    <form onSubmit={submit}>
      {!agent && (
        <p className="card quiet">
          {name} uses the defaults: the main model, and “You are {name}.” as its prompt. Save this form to change them.
        </p>
      )}
      {!may("write") && <p className="card quiet">Your key allows reading only: you cannot change this.</p>}
      <AgentForm name={name} draft={draft} change={setDraft} disabled={!may("write")} />
      <div ref={notice}>
        {theirs && (
          <Conflict
            theirs={theirs}
            base={base}
            mine={draft}
            takeTheirs={() => applySaved(theirs, "Showing their version.")}
            save={() => save(merged(base, draft, draftOf(theirs)), theirs.version)}
          />
        )}
        {error ? <Failure error={error} retry={() => save()} /> : null}
      </div>
      {may("write") && (
        <footer className={`actions ${css.save}`}>
          {agent && may("delete") && (
            <button type="button" className="danger" onClick={() => setRemoving(true)}>
              Remove agent
            </button>
          )}
          <span className={css.space} />
          {changed && (
            <button type="button" onClick={() => setDraft(base)}>
              Reset
            </button>
          )}
          <button type="submit" className="primary" disabled={busy || (!changed && version > 0)}>
            {busy ? "Saving…" : "Save"}
          </button>
        </footer>
      )}
      {removing && <RemoveAgent name={name} close={() => setRemoving(false)} />}
    </form>
  );
}

const send = (name: string, content: Draft, version: number) =>
  version
    ? patch("/api/agents/{name}", { path: { name }, body: content, ifMatch: version })
    : post("/api/agents", { body: { name, ...content } });

type ConflictProps = { theirs: Agent; base: Draft; mine: Draft; takeTheirs: () => void; save: () => void };

/** A conflict: the changes that somebody else saved first, beside the unsaved ones. */
function Conflict({ theirs, base, mine, takeTheirs, save }: ConflictProps) {
  const parts = differences(base, theirs);
  return (
    <section className={`card ${css.theirs}`} role="alert" aria-label="Changed by somebody else">
      <h2>Somebody else changed this agent in the meantime</h2>
      <p className="quiet">Saved {moment(theirs.updated_at)}. Your changes are still in the fields above.</p>
      {parts.length === 0 && <p>Their changes do not affect anything shown here.</p>}
      <dl>
        {parts.map((part) => (
          <div key={part} className={css.theirPart}>
            <dt>{NAMES[part]}</dt>
            <dd>
              <span className="quiet">Theirs</span>
              <pre>{written(theirs, part) || "(empty)"}</pre>
            </dd>
            <dd>
              <span className="quiet">{written(mine, part) === written(base, part) ? "Before" : "Yours"}</span>
              <pre>{written(mine, part) || "(empty)"}</pre>
            </dd>
          </div>
        ))}
      </dl>
      <p className="quiet">Saving your version keeps their changes to the fields that you did not change.</p>
      <footer className="actions">
        <button type="button" onClick={takeTheirs}>
          Use theirs
        </button>
        <button type="button" className="primary" onClick={save}>
          Overwrite with mine
        </button>
      </footer>
    </section>
  );
}
