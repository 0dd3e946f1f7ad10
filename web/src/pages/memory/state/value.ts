// A state value as editable text, and its expiry.

/** Indented JSON. */
export const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

/** A value on one line; null if it is too long. */
export const short = (value: unknown, limit = 160): string | null => {
  const text = JSON.stringify(value);
  return text.length <= limit ? text : null;
};

export type Parsed = { value: unknown; parseError: null } | { value: undefined; parseError: string };

/** The entered text as JSON, or the error in it. */
export function parse(text: string): Parsed {
  if (!text.trim())
    return { value: undefined, parseError: 'Enter a value as JSON. Text needs double quotes, such as "dark".' };
  try {
    const value = JSON.parse(text);
    if (exact(value)) return { value, parseError: null };
    return {
      value: undefined,
      parseError: "It contains a number that a browser cannot send exactly. Put it in quotes.",
    };
  } catch {
    return {
      value: undefined,
      parseError: "This is not valid JSON yet. Text needs double quotes, and the last value has no comma after it.",
    };
  }
}

/** True if every number is exact: browsers round whole numbers beyond 2⁵³. */
export function exact(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (value === null || typeof value !== "object") return true;
  return Object.values(value).every(exact);
}

/** The remaining seconds as a clock: 4:59, 1:02:03, 3 days. */
export function timeLeft(seconds: number): string {
  const rounded = Math.max(0, Math.ceil(seconds));
  if (rounded >= 172_800) return `${Math.floor(rounded / 86_400)} days`;
  const [hours, minutes, rest] = [Math.floor(rounded / 3600), Math.floor((rounded % 3600) / 60), rounded % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export const LASTS = {
  never: "Never",
  hour: "In an hour",
  day: "In a day",
  week: "In a week",
  own: "After a number of seconds",
};
export type Lifetime = keyof typeof LASTS | "kept";
const SECONDS = { hour: 3600, day: 86_400, week: 604_800 };

/** The lifetime in seconds; null for no expiry, undefined if the entered number is invalid. */
export function ttl(lasts: Lifetime, ownSeconds: string, rest: number): number | null | undefined {
  if (lasts === "never") return null;
  if (lasts === "kept") return Math.max(rest, 1);
  if (lasts !== "own") return SECONDS[lasts];
  const seconds = Number(ownSeconds);
  return ownSeconds.trim() && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}
