// An agent's settings. Saving sends the version that was loaded, so that a concurrent change is shown and not overwritten.
import { type FormEvent, useEffect, useRef, useState } from "react";
import type { Agent } from "../../api";
import { get, Problem, patch, post } from "../../api/client";
import { useWho } from "../../app/who";
import { Failure } from "../../ui/states";
import { moment } from "../../ui/time";
import { say } from "../../ui/toast";
import { AgentForm } from "./AgentForm";
import css from "./agents.module.css";
import { BLANK, type Draft, differences, draftOf, merged, NAMES, written } from "./draft";
import { RemoveAgent } from "./RemoveAgent";

type Shown = { name: string; agent: Agent | null; saved: (agent: Agent) => void };

/** What was written and not saved, while one looks at another tab. */
const unsaved = new Map<string, { draft: Draft; before: Draft; version: number }>();

export function Settings({ name, agent, saved }: Shown) {
  const { may } = useWho();
  const stored = agent ? draftOf(agent) : BLANK;
  const left = unsaved.get(name);
  const kept = left && !left.version === !agent ? left : undefined; // it may have been removed or made since
  const [draft, setDraft] = useState<Draft>(kept?.draft ?? stored);
  const [before, setBefore] = useState<Draft>(kept?.before ?? stored);
  const [version, setVersion] = useState(kept?.version ?? agent?.version ?? 0);
  const [theirs, setTheirs] = useState<Agent>();
  const [error, setError] = useState<unknown>();
  const [removing, setRemoving] = useState(false);
  const [busy, setBusy] = useState(false);
  const told = useRef<HTMLDivElement>(null);
  const changed = differences(before, draft).length > 0;
  useEffect(() => {
    if (theirs || error) told.current?.scrollIntoView({ block: "center" }); // the button is always in sight, this is not
  }, [theirs, error]);
  useEffect(() => {
    if (changed) unsaved.set(name, { draft, before, version });
    else unsaved.delete(name);
  }, [name, draft, before, version, changed]);
  const took = (now: Agent, text: string, sent?: Draft) => {
    setDraft((mine) => (sent ? merged(sent, mine, draftOf(now)) : draftOf(now))); // who wrote on meanwhile keeps that
    setBefore(draftOf(now));
    setVersion(now.version);
    setTheirs(undefined);
    saved(now);
    say(text);
  };
  const save = async (what: Draft = draft, over = version) => {
    setBusy(true);
    setError(undefined);
    try {
      took(await send(name, what, over), over ? "Saved." : `${name} is set up.`, draft);
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
          {name} uses the defaults: the main model and the prompt “You are {name}.”. Save this form to change them.
        </p>
      )}
      {!may("write") && <p className="card quiet">Your key allows reading only: you cannot change this.</p>}
      <AgentForm name={name} draft={draft} change={setDraft} disabled={!may("write")} />
      <div ref={told}>
        {theirs && (
          <Theirs
            theirs={theirs}
            before={before}
            mine={draft}
            take={() => took(theirs, "Showing their version.")}
            save={() => save(merged(before, draft, draftOf(theirs)), theirs.version)}
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
            <button type="button" onClick={() => setDraft(before)}>
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

const send = (name: string, what: Draft, version: number) =>
  version
    ? patch("/api/agents/{name}", { path: { name }, body: what, ifMatch: version })
    : post("/api/agents", { body: { name, ...what } });

type Compared = { theirs: Agent; before: Draft; mine: Draft; take: () => void; save: () => void };

/** Somebody else saved first: what they changed, beside what is written here. */
function Theirs({ theirs, before, mine, take, save }: Compared) {
  const parts = differences(before, theirs);
  return (
    <section className={`card ${css.theirs}`} role="alert" aria-label="Changed by somebody else">
      <h2>Somebody else changed this agent in the meantime</h2>
      <p className="quiet">Saved {moment(theirs.updated_at)}. What you wrote is still in the fields above.</p>
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
              <span className="quiet">{written(mine, part) === written(before, part) ? "Before" : "Yours"}</span>
              <pre>{written(mine, part) || "(empty)"}</pre>
            </dd>
          </div>
        ))}
      </dl>
      <p className="quiet">Saving your version keeps their changes to the fields that you did not change.</p>
      <footer className="actions">
        <button type="button" onClick={take}>
          Use theirs
        </button>
        <button type="button" className="primary" onClick={save}>
          Overwrite with mine
        </button>
      </footer>
    </section>
  );
}
