// The filters of entries: as a person enters them, and as parameters of the API.
import type { Entry } from "../../api";
import { days } from "../../ui/days";

export type Filter = {
  text: string;
  /** Search by meaning, not by keyword. */
  meaning: boolean;
  kind: "" | "core" | "journal";
  state: "" | "fresh" | "faded" | "pending" | "refused";
  /** Days in the format of a date field. */
  since: string;
  until: string;
  /** Entries of all users, not only of the current one. */
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

/** The filter as parameters of the list endpoint. */
export function queryOf(filter: Filter) {
  return {
    kind: filter.kind || undefined,
    search: filter.text.trim() || undefined,
    expired: filter.state === "fresh" ? false : filter.state === "faded" ? true : undefined,
    review: filter.state === "pending" || filter.state === "refused" ? filter.state : undefined,
    ...days(filter.since, filter.until),
  };
}

/** True if a hit of a search by meaning matches the other filters. */
export function matches(filter: Filter, entry: Pick<Entry, "kind" | "expired" | "review">): boolean {
  const { kind, expired, review } = queryOf(filter);
  return (
    entry.kind !== "whiteboard" &&
    (!kind || entry.kind === kind) &&
    (expired === undefined || entry.expired === expired) &&
    (!review || entry.review === review)
  );
}

/** The number of active filters among the collapsed ones. */
export const folded = (filter: Filter): number =>
  [filter.state, filter.since, filter.until, filter.everybody].filter(Boolean).length;

export const isFiltered = (filter: Filter): boolean =>
  !!(filter.text.trim() || filter.kind || filter.state || filter.since || filter.until);
