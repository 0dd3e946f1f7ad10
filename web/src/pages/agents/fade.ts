// The remaining lifetime of a journal entry, as a number for drawing and as text.
import type { Entry } from "../../api";
import { ago } from "../../ui/time";

type Fading = Pick<Entry, "created_at" | "expires_at" | "expired">;

/** The remaining fraction of the lifetime: 1 when new, 0 when expired; null for permanent entries. */
export function life({ created_at, expires_at }: Fading, now: number): number | null {
  if (!expires_at) return null;
  const [from, till] = [Date.parse(created_at), Date.parse(expires_at)];
  return Math.min(1, Math.max(0, (till - now) / (till - from)));
}

/** True if the entry has expired by now, even if it was loaded before. */
export const faded = (entry: Fading, now: number): boolean =>
  entry.expired || (entry.expires_at !== null && Date.parse(entry.expires_at) <= now);

/** The time until it expires, or since it expired. */
export function fading(entry: Fading, now: number): string {
  if (!entry.expires_at) return "";
  if (faded(entry, now)) return `expired ${ago(entry.expires_at, now)}`;
  const hours = Math.round((Date.parse(entry.expires_at) - now) / 3_600_000);
  if (hours < 1) return "expires within the hour";
  if (hours < 36) return `expires in ${hours} ${hours === 1 ? "hour" : "hours"}`;
  return `expires in ${Math.round(hours / 24)} days`;
}

/** The text colour, which fades with the remaining lifetime and stays readable. */
export const inked = (fraction: number | null): string | undefined =>
  fraction === null ? undefined : `color-mix(in srgb, var(--ink) ${Math.round(fraction * 100)}%, var(--ink-quiet))`;
