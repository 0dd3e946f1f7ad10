// The names of a person or thing: names that mean the same, and proposals to merge two of them.
import { type FormEvent, useState } from "react";
import { errorMessage, post } from "../../../api/client";
import type { Entity } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Dialog } from "../../../ui/Dialog";
import { Field } from "../../../ui/Field";
import { count } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import css from "./facts.module.css";

type Changed = () => void;
type Verb = "merge" | "separate";
const OPPOSITE = { merge: "separate", separate: "merge" } as const;

/** Merge or separate two names; a notification offers to undo it, or says why it failed. */
function useNames(changed: Changed) {
  const { user } = useApp();
  const [busy, setBusy] = useState(false);
  const send = async (verb: Verb, name: string, other: string) => {
    const options = { query: { user }, body: { name, other } };
    await (verb === "merge" ? post("/api/facts/merge", options) : post("/api/facts/separate", options));
    changed();
  };
  const decide = async (verb: Verb, name: string, other: string) => {
    setBusy(true);
    let done = false;
    try {
      await send(verb, name, other);
      done = true;
      const undo = () => send(OPPOSITE[verb], name, other).catch((error) => notify(errorMessage(error)));
      notify(`${name} and ${other} are ${verb === "merge" ? "the same" : "different"} now.`, undo);
    } catch (error) {
      notify(errorMessage(error));
    }
    setBusy(false);
    return done;
  };
  return { busy, decide };
}

/** The other names of a person or thing. */
export function Aliases({ name, aliases, changed }: { name: string; aliases: readonly string[]; changed: Changed }) {
  const { may } = useApp();
  const { busy, decide } = useNames(changed);
  return aliases.map((alias) => (
    <span key={alias} className="quiet">
      also “{alias}”{" "}
      {may("write") && (
        <button
          type="button"
          className="link"
          aria-label={`Separate ${alias} from ${name}`}
          disabled={busy}
          onClick={() => decide("separate", name, alias)}
        >
          Separate
        </button>
      )}
    </span>
  ));
}

/** Pairs of names that may mean the same, to merge or to keep apart. */
export function NameProposals({ entities, changed }: { entities: readonly Entity[]; changed: Changed }) {
  const { may } = useApp();
  const { busy, decide } = useNames(changed);
  const pairs = entities.flatMap(({ name, proposed }) => proposed.map((other) => [name, other] as const));
  if (!pairs.length) return null;
  return (
    <ul className={css.queue} aria-label="Names that may mean the same">
      {pairs.map(([name, other]) => (
        <li key={`${name} ${other}`}>
          <article className={`card ${css.question}`} aria-label={`${name} and ${other}`}>
            <p>
              Are <b>{name}</b> and <b>{other}</b> the same?
            </p>
            {may("write") && (
              <footer className="actions">
                <button type="button" disabled={busy} onClick={() => decide("separate", name, other)}>
                  Different
                </button>
                <button type="button" className="primary" disabled={busy} onClick={() => decide("merge", name, other)}>
                  The same
                </button>
              </footer>
            )}
          </article>
        </li>
      ))}
    </ul>
  );
}

type MergeProps = { entities: readonly Entity[]; chosen: string; close: () => void; changed: Changed };

/** Choose two names that mean the same person or thing. */
export function MergeDialog({ entities, chosen, close, changed }: MergeProps) {
  const { busy, decide } = useNames(changed);
  const [name, setName] = useState(entities.some((entity) => entity.name === chosen) ? chosen : "");
  const [other, setOther] = useState("");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (await decide("merge", name, other)) close();
  };
  const select = (value: string, choose: (name: string) => void, taken: string) => (
    <select required value={value} onChange={(event) => choose(event.target.value)}>
      <option value="">Choose a name</option>
      {entities.map((entity) => (
        <option key={entity.name} value={entity.name} disabled={entity.name === taken}>
          {[entity.name, ...entity.aliases].join(", ")} ({count(entity.facts)} {entity.facts === 1 ? "fact" : "facts"})
        </option>
      ))}
    </select>
  );
  return (
    <Dialog title="Merge two names" close={close}>
      <p>Facts about both are shown together then. You can separate the names again at any time.</p>
      <form onSubmit={submit}>
        <Field label="Name">{select(name, setName, other)}</Field>
        <Field label="Means the same as">{select(other, setOther, name)}</Field>
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={busy || !name || !other}>
            {busy ? "Merging…" : "Merge"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
