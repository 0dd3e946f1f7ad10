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
const dateAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** The distance of a timestamp from now: "5 minutes ago", "in 2 days". */
export function ago(at: string, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

/** The current time, updated every `seconds` while the component is mounted. */
export function useNow(seconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

/** A timestamp as relative time; the full date is its tooltip and its `dateTime`. */
export function Time({ at }: { at: string }) {
  useNow(30); // render again every 30 seconds
  return (
    <time dateTime={at} title={dateAndTime.format(new Date(at))}>
      {ago(at)}
    </time>
  );
}

const weekdayAndDate = new Intl.DateTimeFormat("en-GB", { dateStyle: "full" });

const hoursAndMinutes = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });

/** A timestamp as the time of its day. */
export const timeOfDay = (at: string) => hoursAndMinutes.format(new Date(at));
/** A timestamp as weekday and date. */
export const fullDate = (at: string) => weekdayAndDate.format(new Date(at));
/** A timestamp as date and time. */
export const moment = (at: string) => dateAndTime.format(new Date(at));
/** A timestamp as a date. Midnight in UTC stands for a whole day, which is the same day everywhere. */
export function date(at: string): string {
  const isWholeDay = /T00:00:00(\.0+)?(Z|\+00:00)$/.test(at);
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: isWholeDay ? "UTC" : undefined }).format(
    new Date(at),
  );
}
/** A number with thousands separators. */
export const count = (value: number) => value.toLocaleString("en");

/** A number and its noun. */
export const plural = (amount: number, noun: string) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;

/** A size in bytes. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  let amount = value;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit++;
  }
  return `${unit ? amount.toFixed(amount < 10 ? 1 : 0) : amount} ${units[unit]}`;
}
