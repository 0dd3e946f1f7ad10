// Confirm, retract and undo; each says what was done and offers to undo it.
import { useState } from "react";
import { errorMessage, post } from "../../../api/client";
import type { Fact } from "../../../api/index";
import { useApp } from "../../../app/context";
import { notify } from "../../../ui/toast";

/** Called with the changed fact; `related` if other facts may have changed with it. */
export type OnChanged = (fact: Fact, related: boolean) => void;
export type FactActions = {
  /** The id of the fact that is being changed. */
  busy: string | null;
  confirm: (fact: Fact) => Promise<void>;
  retract: (fact: Fact) => Promise<void>;
  undo: (id: string) => Promise<void>;
};

export function useFactActions(changed: OnChanged): FactActions {
  const { user } = useApp();
  const [busy, setBusy] = useState<string | null>(null);
  const run = async (id: string, work: () => Promise<void>) => {
    setBusy(id);
    try {
      await work();
    } catch (error) {
      notify(errorMessage(error));
    }
    setBusy(null);
  };
  const options = (id: string) => ({ path: { id }, query: { user } });
  const undo = (id: string) =>
    run(id, async () => {
      changed(await post("/api/facts/{id}/undo", options(id)), true);
      notify("Undone.");
    });
  return {
    busy,
    undo,
    confirm: (fact) =>
      run(fact.id, async () => {
        const confirmed = await post("/api/facts/{id}/confirm", options(fact.id));
        changed(confirmed, confirmed.replaces !== null);
        notify("Confirmed.", () => undo(fact.id));
      }),
    retract: (fact) =>
      run(fact.id, async () => {
        const retracted = await post("/api/facts/{id}/retract", options(fact.id));
        changed(retracted, retracted.replaces !== null);
        notify("Retracted.", () => undo(fact.id));
      }),
  };
}
