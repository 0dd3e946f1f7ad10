// A state value as editable text, and its expiry.

/** JSON as people read it. */
export const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

/** A value that fits into a line. */
export const short = (value: unknown, most = 160): string | null => {
  const text = JSON.stringify(value);
  return text.length <= most ? text : null;
};

export type Parsed = { value: unknown; wrong: null } | { value: undefined; wrong: string };

/** The entered text as JSON, or the error in it. */
export function parse(text: string): Parsed {
  if (!text.trim()) return { value: undefined, wrong: 'Write a value as JSON: text stands in quotes, such as "dark".' };
  try {
    const value = JSON.parse(text);
    if (exact(value)) return { value, wrong: null };
    return { value: undefined, wrong: "It has a number that a browser cannot send exactly. Put it in quotes." };
  } catch {
    return {
      value: undefined,
      wrong: "This is not JSON yet. Text needs double quotes, and nothing may follow the last comma.",
    };
  }
}

/** True if every number is exact: browsers round whole numbers beyond 2⁵³. */
export function exact(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (value === null || typeof value !== "object") return true;
  return Object.values(value).every(exact);
}

/** Seconds that are left as a clock: 4:59, 1:02:03, 3 days. */
export function left(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole >= 172_800) return `${Math.floor(whole / 86_400)} days`;
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export const LASTS = {
  never: "Never",
  hour: "In an hour",
  day: "In a day",
  week: "In a week",
  own: "After some seconds",
};
export type Lasts = keyof typeof LASTS | "kept";
const SECONDS = { hour: 3600, day: 86_400, week: 604_800 };

/** How many seconds a value is to last; null for ever, undefined where what was typed is no such number. */
export function ttl(lasts: Lasts, own: string, rest: number): number | null | undefined {
  if (lasts === "never") return null;
  if (lasts === "kept") return Math.max(rest, 1);
  if (lasts !== "own") return SECONDS[lasts];
  const seconds = Number(own);
  return own.trim() && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}
