// Convert the days of a date field to API timestamps, in the user's time zone.

/** When a day begins, or the one so many days later; nothing for what is no day. */
export function midnight(day: string, later = 0): string | undefined {
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day)?.map(Number) ?? [];
  if (!year || !month || !date) return undefined;
  return new Date(year, month - 1, date + later).toISOString();
}

/** From the first day to the last, which is meant whole. */
export const days = (since: string, until: string) => ({ since: midnight(since), until: midnight(until, 1) });
