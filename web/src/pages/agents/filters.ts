// The filters of entries: as a person enters them, and as parameters of the API.
import type { Entry } from "../../api";
import { days } from "../../ui/days";

export type Filter = {
  text: string;
  /** By meaning rather than by its words. */
  meaning: boolean;
  kind: "" | "core" | "journal";
  state: "" | "fresh" | "faded" | "pending" | "refused";
  /** Days, as a date field has them. */
  since: string;
  until: string;
  /** What is remembered with any user, not with the one who is here alone. */
  everybody: boolean;
};
export const NO_FILTER: Filter = {
  text: "",
  meaning: false,
  kind: "",
  state: "",
  since: "",
  until: "",
  everybody: false,
};

/** The filter as the list takes it. */
export function asked(filter: Filter) {
  return {
    kind: filter.kind || undefined,
    search: filter.text.trim() || undefined,
    expired: filter.state === "fresh" ? false : filter.state === "faded" ? true : undefined,
    review: filter.state === "pending" || filter.state === "refused" ? filter.state : undefined,
    ...days(filter.since, filter.until),
  };
}

/** Whether an entry that was found by its meaning is one of those that the filter keeps. */
export function keeps(filter: Filter, entry: Pick<Entry, "kind" | "expired" | "review">): boolean {
  const { kind, expired, review } = asked(filter);
  return (
    entry.kind !== "whiteboard" &&
    (!kind || entry.kind === kind) &&
    (expired === undefined || entry.expired === expired) &&
    (!review || entry.review === review)
  );
}

/** How many of the filters that are folded away are set. */
export const folded = (filter: Filter): number =>
  [filter.state, filter.since, filter.until, filter.everybody].filter(Boolean).length;

export const isFiltered = (filter: Filter): boolean =>
  !!(filter.text.trim() || filter.kind || filter.state || filter.since || filter.until);
