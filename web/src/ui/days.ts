// Convert the days of a date field to API timestamps, in the user's time zone.

/** The start of a day, `later` days on; undefined if the text is not a date. */
export function midnight(day: string, later = 0): string | undefined {
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day)?.map(Number) ?? [];
  if (!year || !month || !date) return undefined;
  return new Date(year, month - 1, date + later).toISOString();
}

/** The period from the first day to the end of the last. */
export const days = (since: string, until: string) => ({ since: midnight(since), until: midnight(until, 1) });
