// Confirm before forgetting a fact.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Fact } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { Failure } from "../../../ui/states";
import { notify } from "../../../ui/toast";
import css from "./facts.module.css";

type Props = { fact: Fact; close: () => void; forgotten: () => void };

export function ForgetDialog({ fact, close, forgotten }: Props) {
  const { user } = useApp();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const forget = async () => {
    setBusy(true);
    try {
      await remove("/api/facts/{id}", { path: { id: fact.id }, query: { user } });
    } catch (failure) {
      const isGone = failure instanceof Problem && failure.status === 404;
      if (!isGone) {
        setError(failure);
        setBusy(false);
        return;
      }
    }
    notify("Forgotten.");
    forgotten();
    close();
  };
  return (
    <Confirm title="Forget this fact?" yes="Forget" busy={busy} onConfirm={forget} close={close}>
      <blockquote className={css.quote}>{fact.statement}</blockquote>
      <p>
        The fact and its history are deleted permanently. The messages that it comes from stay. To keep a trace of a
        fact that is not true, retract it instead.
      </p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
