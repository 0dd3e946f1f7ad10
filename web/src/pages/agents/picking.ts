// The selected entries: one by one, a range with Shift, or all.
export type Picked<T> = ReadonlyMap<string, T>;

/** Pick or leave one; with `from`, everything between the two as well, in the order they are shown. */
export function pick<T extends { id: string }>(
  picked: Picked<T>,
  items: readonly T[],
  id: string,
  on: boolean,
  from: string | null = null,
): Picked<T> {
  const here = items.findIndex((item) => item.id === id);
  const there = from === null ? here : items.findIndex((item) => item.id === from);
  const [first, last] = there < 0 ? [here, here] : [Math.min(here, there), Math.max(here, there)];
  const next = new Map(picked);
  for (const item of items.slice(first, last + 1)) {
    if (on) next.set(item.id, item);
    else next.delete(item.id);
  }
  return next;
}

/** All of these. */
export const pickAll = <T extends { id: string }>(items: readonly T[]): Picked<T> =>
  new Map(items.map((item) => [item.id, item]));

/** A list in parts of so many. */
export function inParts<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < items.length; at += size) parts.push(items.slice(at, at + size));
  return parts;
}
