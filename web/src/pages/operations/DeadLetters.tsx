// The events that a webhook did not accept, oldest first.
import { get } from "../../api/client";
import type { DeadLetter } from "../../api/index";
import { usePages } from "../../api/load";
import { PagedList } from "../../ui/PagedList";
import { moment, Time } from "../../ui/time";
import css from "./operations.module.css";

/** Loaded again when `amount`, the number of dead letters, changes. */
export function DeadLetters({ id, amount }: { id: string; amount: number }) {
  const letters = usePages<DeadLetter>(
    (after, signal) => get("/api/webhooks/{id}/dead-letters", { path: { id }, query: { limit: 100, after }, signal }),
    [id, amount],
  );
  return (
    <PagedList
      pages={letters}
      keyOf={(letter) => letter.event.number}
      size={70}
      label="Events that were not accepted"
      className={css.letters}
      empty={<p className="quiet">All events were accepted.</p>}
    >
      {({ event, error, failed_at }) => (
        <div className={css.letter}>
          <p className={css.lineMain}>
            <span className="quiet">{event.number}</span>
            <b>
              {event.kind}.{event.type}
            </b>
            <span>{event.subject}</span>
            {event.user !== null && <span className="chip">{event.user}</span>}
            <span className={css.lineWhen}>{moment(event.at)}</span>
          </p>
          <p className="quiet">
            {error || "never tried"}, <Time at={failed_at} />
          </p>
        </div>
      )}
    </PagedList>
  );
}
