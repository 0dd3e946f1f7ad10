// The requested part of a reference, as API parameters.

export type ViewMode = "page" | "grep" | "lines" | "head" | "tail" | "path";
export type Part = { page?: number; grep?: string; lines?: string; head?: number; tail?: number; path?: string };
export const FIRST: Part = { page: 1 };

/** The typed text as a pattern: escaped and case-insensitive, unless it is a regular expression. */
export function pattern(typed: string, regular: boolean): string {
  return regular ? typed : `(?i)${typed.replace(/[.*+?^${}()|[\]\\/#&~-]/g, "\\$&")}`;
}

/** The part that the typed text names; null if it is not valid. */
export function partOf(mode: ViewMode, typed: string, regular: boolean): Part | null {
  const text = typed.trim();
  if (mode === "page" || mode === "head" || mode === "tail") {
    return /^[1-9]\d{0,8}$/.test(text) ? { [mode]: Number(text) } : null;
  }
  if (mode === "lines") {
    const range = /^([1-9]\d{0,8})(?:\s*[-–]\s*([1-9]\d{0,8}))?$/.exec(text);
    if (!range) return null;
    const [, first, last = first] = range;
    return Number(last) >= Number(first) ? { lines: `${first}-${last}` } : null;
  }
  if (!text) return null;
  return mode === "grep" ? { grep: pattern(typed, regular) } : { path: text.startsWith("$") ? text : `$.${text}` };
}

/** The part that follows a view. */
export function following(next: Record<string, unknown>): Part | null {
  if (typeof next.page === "number") return { page: next.page };
  if (Array.isArray(next.lines)) return { lines: next.lines.join("-") };
  return null;
}
