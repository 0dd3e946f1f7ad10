// The requested part of a reference, as API parameters.

export type Way = "page" | "grep" | "lines" | "head" | "tail" | "path";
export type Part = { page?: number; grep?: string; lines?: string; head?: number; tail?: number; path?: string };
export const FIRST: Part = { page: 1 };

/** What was typed as a pattern: words as they are, unless they are meant as a regular expression. Case does not matter. */
export function pattern(typed: string, regular: boolean): string {
  return regular ? typed : `(?i)${typed.replace(/[.*+?^${}()|[\]\\/#&~-]/g, "\\$&")}`;
}

/** What was typed, as a part; null while that is none. */
export function partOf(way: Way, typed: string, regular: boolean): Part | null {
  const text = typed.trim();
  if (way === "page" || way === "head" || way === "tail") {
    return /^[1-9]\d{0,8}$/.test(text) ? { [way]: Number(text) } : null;
  }
  if (way === "lines") {
    const range = /^([1-9]\d{0,8})(?:\s*[-–]\s*([1-9]\d{0,8}))?$/.exec(text);
    if (!range) return null;
    const [, first, last = first] = range;
    return Number(last) >= Number(first) ? { lines: `${first}-${last}` } : null;
  }
  if (!text) return null;
  return way === "grep" ? { grep: pattern(typed, regular) } : { path: text.startsWith("$") ? text : `$.${text}` };
}

/** What a view says comes next, as a part. */
export function following(next: Record<string, unknown>): Part | null {
  if (typeof next.page === "number") return { page: next.page };
  if (Array.isArray(next.lines)) return { lines: next.lines.join("-") };
  return null;
}
