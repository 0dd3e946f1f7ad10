// A quiet line below an answer: what was learned from the message, with a link to it and a button to undo it.
import { useState } from "react";
import { errorMessage, post } from "../../api/client";
import type { Fact } from "../../api/index";
import { useApp } from "../../app/context";
import { factAt } from "../../refs/places";
import { Link } from "../../ui/Link";
import { notify } from "../../ui/toast";
import css from "./chat.module.css";

const SHOWN = 3;

export function LearnedFacts({ facts }: { facts: readonly Fact[] }) {
  if (!facts.length) return null;
  return (
    <ul className={css.learned} aria-label="Learned from this message">
      {facts.slice(0, SHOWN).map((fact) => (
        <li key={fact.id}>
          <LearnedFact fact={fact} />
        </li>
      ))}
      {facts.length > SHOWN && (
        <li>
          <Link href="/memory/facts">and {facts.length - SHOWN} more</Link>
        </li>
      )}
    </ul>
  );
}

function LearnedFact({ fact }: { fact: Fact }) {
  const { user, may } = useApp();
  const [state, setState] = useState<"there" | "busy" | "undone">("there");
  const undo = async () => {
    setState("busy");
    try {
      await post("/api/facts/{id}/undo", { path: { id: fact.id }, query: { user } });
      setState("undone");
    } catch (error) {
      setState("there");
      notify(errorMessage(error));
    }
  };
  if (state === "undone")
    return (
      <span role="status">
        Undone: <del>{fact.statement}</del>
      </span>
    );
  return (
    <>
      Learned: <Link href={factAt(fact.id)}>{fact.statement}</Link>{" "}
      {may("write") && (
        <button
          type="button"
          className="link"
          aria-label={`Undo: ${fact.statement}`}
          disabled={state === "busy"}
          onClick={undo}
        >
          Undo
        </button>
      )}
    </>
  );
}
