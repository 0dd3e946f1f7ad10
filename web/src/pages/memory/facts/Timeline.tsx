// What changed in the facts of the user, when and why, by day.
import type { FactChange } from "../../../api/index";
import type { Pages } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Empty, Failure, Loading } from "../../../ui/states";
import { byDay, joinRepeats, stepsOf } from "./fact";
import css from "./facts.module.css";
import { StepItem } from "./StepItem";

type Props = { changes: Pages<FactChange>; filtered: boolean; clear: () => void };

export function Timeline({ changes, filtered, clear }: Props) {
  const { user } = useApp();
  const isEmpty = !changes.loading && !changes.error && changes.items.length === 0;
  const steps = stepsOf(changes.items.toReversed());
  // The rest of the last step may be on the next page.
  const complete = changes.hasMore && steps.length > 1 ? steps.slice(0, -1) : steps;
  return (
    <>
      <div className={css.days} inert={changes.stale} aria-busy={changes.stale}>
        {byDay(joinRepeats(complete)).map(({ day, steps }) => (
          <section key={day} aria-label={day}>
            <h2>{day}</h2>
            <ol className={css.timeline}>
              {steps.map((step) => (
                <StepItem key={step.id} step={step} ofDay />
              ))}
            </ol>
          </section>
        ))}
      </div>
      {changes.error ? <Failure error={changes.error} retry={changes.retry} /> : null}
      {changes.loading && !changes.items.length && <Loading label="Loading the timeline" />}
      {isEmpty && (
        <Empty title={filtered ? "No change matches" : "Nothing has changed yet"}>
          {filtered ? (
            <button type="button" onClick={clear}>
              Show all changes
            </button>
          ) : (
            <p>
              Here you will see when each fact about {user} was learned, changed or removed, and which message was the
              reason.
            </p>
          )}
        </Empty>
      )}
      {changes.hasMore && (
        <button type="button" onClick={changes.more} disabled={changes.loading}>
          {changes.loading ? "Loading…" : "Show older changes"}
        </button>
      )}
    </>
  );
}
