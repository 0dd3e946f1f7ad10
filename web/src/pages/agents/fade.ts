// The remaining lifetime of a journal entry, as a number for drawing and as text.
import type { Entry } from "../../api";
import { ago } from "../../ui/time";

type Fading = Pick<Entry, "created_at" | "expires_at" | "expired">;

/** What is left of its time: 1 when it was written, 0 when it has faded; null for what stays. */
export function life({ created_at, expires_at }: Fading, now: number): number | null {
  if (!expires_at) return null;
  const [from, till] = [Date.parse(created_at), Date.parse(expires_at)];
  return Math.min(1, Math.max(0, (till - now) / (till - from)));
}

/** Whether it has faded by now; it may have while it was looked at. */
export const faded = (entry: Fading, now: number): boolean =>
  entry.expired || (entry.expires_at !== null && Date.parse(entry.expires_at) <= now);

/** When it fades, or did. */
export function fading(entry: Fading, now: number): string {
  if (!entry.expires_at) return "";
  if (faded(entry, now)) return `faded ${ago(entry.expires_at, now)}`;
  const hours = Math.round((Date.parse(entry.expires_at) - now) / 3_600_000);
  if (hours < 1) return "fades within the hour";
  if (hours < 36) return `fades in ${hours} ${hours === 1 ? "hour" : "hours"}`;
  return `fades in ${Math.round(hours / 24)} days`;
}

/** The colour of its text: from ink to quiet ink, both of which can be read. */
export const inked = (left: number | null): string | undefined =>
  left === null ? undefined : `color-mix(in srgb, var(--ink) ${Math.round(left * 100)}%, var(--ink-quiet))`;
