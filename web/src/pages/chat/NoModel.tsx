// The notice that no model is set up. Once dismissed, this browser does not show it again.
import { useState } from "react";
import { useApp } from "../../app/context";
import { readStored, store } from "../../app/storage";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import css from "./chat.module.css";

const DISMISSED = "noModelDismissed";

export function NoModel() {
  const { may } = useApp();
  const [dismissed, setDismissed] = useState(readStored(DISMISSED) !== null);
  if (dismissed) return null;
  const dismiss = () => {
    store(DISMISSED, "yes");
    setDismissed(true);
  };
  return (
    <section className={`card ${css.notice}`} aria-label="No model">
      <p>
        <b>No model is set up.</b> Answers only quote from memory.{" "}
        {may("admin") && <Link href="/setup">Set up a model</Link>}
      </p>
      <button type="button" className="icon" aria-label="Dismiss" onClick={dismiss}>
        <Icon name="close" />
      </button>
    </section>
  );
}
