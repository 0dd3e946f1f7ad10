// The notice that no model is set up. Once dismissed, this browser does not show it again.
import { useState } from "react";
import { keep, kept } from "../../app/keep";
import { useWho } from "../../app/who";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import css from "./chat.module.css";

const DISMISSED = "noModelDismissed";

export function NoModel() {
  const { may } = useWho();
  const [dismissed, setDismissed] = useState(kept(DISMISSED) !== null);
  if (dismissed) return null;
  const dismiss = () => {
    keep(DISMISSED, "yes");
    setDismissed(true);
  };
  return (
    <section className={`card ${css.notice}`} aria-label="No model">
      <p>
        <b>No model is set up.</b> Answers are quotes from memory.{" "}
        {may("admin") && <Link href="/setup">Set up a model</Link>}
      </p>
      <button type="button" className="icon" aria-label="Dismiss" onClick={dismiss}>
        <Icon name="close" />
      </button>
    </section>
  );
}
