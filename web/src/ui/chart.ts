// The geometry of charts: scales with round ticks, stacks, lines with gaps, short number formats.
import type { ReactNode } from "react";

export type Series = { name: string; values: readonly (number | null)[] };

export type Charted = {
  title: string;
  shape: "bars" | "lines";
  /** Each place on the axis: its name in full, and in short below it. */
  places: readonly { name: string; short: string }[];
  series: readonly Series[];
  format: (value: number) => string;
  /** The values are counts: the ticks are integers. */
  whole?: boolean;
  /** The label of a missing value, which differs from zero. */
  missing?: string;
  /** Something to be told of some places, marked above them. */
  marks?: Series;
  /** Controls of the chart, beside its title. */
  children?: ReactNode;
};

/** A value as people read it; what is not known is not nothing. */
export function value({ format, missing = "none" }: Charted, given: number | null | undefined): string {
  return given === null || given === undefined ? missing : format(given);
}

/** Round steps from 0 to at least the highest value: 1, 2, 2.5 or 5 times a power of ten. */
export function ticks(highest: number, about = 4, whole = false): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = whole && power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const round = power * (factors.find((factor) => factor * power >= rough * 0.999) ?? 10);
  const step = whole ? Math.max(1, round) : round;
  const most = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: most + 1 }, (_, place) => Number((place * step).toPrecision(12)));
}

/** The highest value of all series, or of their sums where they are stacked. */
export function highest(series: readonly Series[], stacked: boolean): number {
  const length = series[0]?.values.length ?? 0;
  let most = 0;
  for (let place = 0; place < length; place++) {
    const here = series.map((one) => one.values[place] ?? 0);
    most = Math.max(most, stacked ? here.reduce((sum, value) => sum + value, 0) : Math.max(0, ...here));
  }
  return most;
}

/** From where to where each series goes in one stack; nothing where it has no value. */
export function stack(series: readonly Series[], place: number): ([number, number] | null)[] {
  let from = 0;
  return series.map((one) => {
    const value = one.values[place];
    if (!value) return null;
    from += value;
    return [from - value, from];
  });
}

/** A line as pieces of points: where a value is missing it is not drawn on as if there were one. */
export function pieces(values: readonly (number | null)[]): [number, number][][] {
  const found: [number, number][][] = [];
  let open = false;
  values.forEach((value, place) => {
    if (value === null) {
      open = false;
      return;
    }
    if (!open) found.push([]);
    found.at(-1)?.push([place, value]);
    open = true;
  });
  return found;
}

/** Every so manyth label, so that no two touch; the newest is among them. */
export function every(length: number, width: number, room: number): (place: number) => boolean {
  const step = Math.max(1, Math.ceil((length * room) / Math.max(width, room)));
  return (place) => (length - 1 - place) % step === 0;
}

/** A number in few letters: 1,234 is 1.2k. */
export function compact(value: number): string {
  for (const [size, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)}${letter}`;
  }
  return trim(value);
}

/** At most three digits that mean something, and no zeros at the end. */
function trim(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** Money, to the cent, or as exact as it must be to be seen at all. */
export function money(value: number): string {
  if (value === 0) return "$0";
  if (value < 0.01) return `$${Number(value.toPrecision(2))}`;
  return `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** A number that may be unknown. */
export function known(value: number | null, format: (value: number) => string): string {
  return value === null ? "–" : format(value);
}

/** How long something took. */
export function duration(ms: number): string {
  if (ms < 1) return `${Number(ms.toPrecision(2))} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${trim(ms / 1000)} s`;
}
