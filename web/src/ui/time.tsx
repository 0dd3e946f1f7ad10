// Format times and amounts for display.
import { useEffect, useState } from "react";

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** How far a moment is from now: "5 minutes ago", "in 2 days". */
export function ago(at: string, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

/** The time, growing every so many seconds while somebody looks. */
export function useNow(seconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

/** A moment: how long ago it was, and the whole of it on hovering and for programs. */
export function Time({ at }: { at: string }) {
  useNow(30); // drawn again by and by, and whenever else, always by the clock of the moment
  return (
    <time dateTime={at} title={whole.format(new Date(at))}>
      {ago(at)}
    </time>
  );
}

/** A moment in full. */
export const moment = (at: string) => whole.format(new Date(at));
/** A number with its thousands apart. */
export const count = (value: number) => value.toLocaleString("en");

/** A size in bytes. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  let left = value;
  while (left >= 1024 && place < units.length - 1) {
    left /= 1024;
    place++;
  }
  return `${place ? left.toFixed(left < 10 ? 1 : 0) : left} ${units[place]}`;
}
