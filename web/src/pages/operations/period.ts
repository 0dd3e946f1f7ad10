// A period in UTC hours or days, as the server counts them, and the period of the same length before it.
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
export const MAX_DAYS = 366;
const DAYS = new Map([
  ["7d", 7],
  ["30d", 30],
  ["90d", 90],
]);

export type Unit = "hour" | "day";
export type Period = { unit: Unit; from: number; until: number };
export type Choice = "24h" | "7d" | "30d" | "90d" | "own";
export const CHOICES: readonly [Choice, string][] = [
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["own", "From … to …"],
];

/** The chosen period. A custom one includes both days, and counts by the hour if it is short. */
export function period(choice: string, from: string, to: string, now: number): Period {
  if (choice === "24h") {
    const until = Math.floor(now / HOUR) * HOUR + HOUR;
    return { unit: "hour", from: until - DAY, until };
  }
  const tomorrow = Math.floor(now / DAY) * DAY + DAY;
  if (choice === "own") {
    const [first, last] = [Date.parse(from), Date.parse(to)].sort((a, other) => a - other) as [number, number];
    if (Number.isFinite(first) && Number.isFinite(last)) {
      const until = last + DAY;
      const start = Math.max(first, until - MAX_DAYS * DAY);
      return { unit: until - start <= 2 * DAY ? "hour" : "day", from: start, until };
    }
  }
  const days = DAYS.get(choice) ?? 7;
  return { unit: "day", from: tomorrow - days * DAY, until: tomorrow };
}

/** The period of the same length just before. */
export const previousPeriod = ({ unit, from, until }: Period): Period => ({
  unit,
  from: from - (until - from),
  until: from,
});

/** The length of a period as text. */
export function length(range: Period): string {
  const units = starts(range).length;
  return `${units} ${range.unit}s`;
}

/** The beginning of each hour or day. */
export function starts({ unit, from, until }: Period): number[] {
  const size = unit === "hour" ? HOUR : DAY;
  return Array.from({ length: Math.round((until - from) / size) }, (_, nth) => from + nth * size);
}

/** The start of the hour or day with this name on the server. */
export function startOf(name: string): number {
  const text = /^\d{4}-\d\d-\d\d$/.test(name) ? `${name}T00:00Z` : name.replace(/^(\S{10})[T ](\d\d)$/, "$1T$2:00Z");
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text}Z`);
}

const utc = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options }).format;
const dayName = utc({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
const dayShort = utc({ day: "numeric", month: "short" });
const hourName = utc({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const hourShort = utc({ hour: "2-digit", minute: "2-digit" });

/** The full and the short label of an hour or day. */
export function called(unit: Unit, start: number): { name: string; short: string } {
  if (unit === "day") return { name: dayName(start), short: dayShort(start) };
  return { name: `${hourName(start)} UTC`, short: hourShort(start) };
}
