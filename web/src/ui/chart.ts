// The geometry of charts: scales with round ticks, stacks, lines with gaps, short number formats.
import type { ReactNode } from "react";

export type Series = { name: string; values: readonly (number | null)[] };

export type ChartProps = {
  title: string;
  shape: "bars" | "lines";
  /** The columns of the axis, each with its full and its short name. */
  columns: readonly { name: string; short: string }[];
  series: readonly Series[];
  format: (value: number) => string;
  /** The values are counts: the ticks are integers. */
  integers?: boolean;
  /** The label of a missing value, which differs from zero. */
  missing?: string;
  /** Values that are marked above their columns, such as errors. */
  marks?: Series;
  /** Controls of the chart, beside its title. */
  children?: ReactNode;
};

/** A value for display; a missing value is not shown as zero. */
export function formatValue({ format, missing = "none" }: ChartProps, value: number | null | undefined): string {
  return value === null || value === undefined ? missing : format(value);
}

/** Round steps from 0 to at least the highest value: 1, 2, 2.5 or 5 times a power of ten. */
export function ticks(highest: number, about = 4, integers = false): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = integers && power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const rounded = power * (factors.find((factor) => factor * power >= rough * 0.999) ?? 10);
  const step = integers ? Math.max(1, rounded) : rounded;
  const count = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

/** The highest value of all series, or of their sums where they are stacked. */
export function highest(series: readonly Series[], stacked: boolean): number {
  const length = series[0]?.values.length ?? 0;
  let max = 0;
  for (let index = 0; index < length; index++) {
    const values = series.map((item) => item.values[index] ?? 0);
    max = Math.max(max, stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values));
  }
  return max;
}

/** The start and end of each series in one stack; null for a series without a value. */
export function stack(series: readonly Series[], index: number): ([number, number] | null)[] {
  let from = 0;
  return series.map((item) => {
    const value = item.values[index];
    if (!value) return null;
    from += value;
    return [from - value, from];
  });
}

/** The segments of a line; a missing value interrupts it. */
export function lineSegments(values: readonly (number | null)[]): [number, number][][] {
  const segments: [number, number][][] = [];
  let open = false;
  values.forEach((value, index) => {
    if (value === null) {
      open = false;
      return;
    }
    if (!open) segments.push([]);
    segments.at(-1)?.push([index, value]);
    open = true;
  });
  return segments;
}

/** A filter for the labels that fit without touching; the newest label is always among them. */
export function labelFilter(length: number, width: number, room: number): (index: number) => boolean {
  const step = Math.max(1, Math.ceil((length * room) / Math.max(width, room)));
  return (index) => (length - 1 - index) % step === 0;
}

/** A short number: 1,234 is 1.2k. */
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

/** A number with at most three significant digits and no trailing zeros. */
function trim(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** An amount in dollars, rounded to cents; smaller amounts keep two significant digits. */
export function money(value: number): string {
  if (value === 0) return "$0";
  if (value < 0.01) return `$${Number(value.toPrecision(2))}`;
  return `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** A number that may be unknown. */
export function formatKnown(value: number | null, format: (value: number) => string): string {
  return value === null ? "–" : format(value);
}

/** A duration for display. */
export function duration(ms: number): string {
  if (ms < 1) return `${Number(ms.toPrecision(2))} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${trim(ms / 1000)} s`;
}
