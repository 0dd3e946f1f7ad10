// The selected entries: one by one, a range with Shift, or all.
export type Selection<T> = ReadonlyMap<string, T>;

/** Select or deselect an entry; with `from`, also all entries between the two, in display order. */
export function pick<T extends { id: string }>(
  selection: Selection<T>,
  items: readonly T[],
  id: string,
  on: boolean,
  from: string | null = null,
): Selection<T> {
  const index = items.findIndex((item) => item.id === id);
  const anchor = from === null ? index : items.findIndex((item) => item.id === from);
  const [first, last] = anchor < 0 ? [index, index] : [Math.min(index, anchor), Math.max(index, anchor)];
  const next = new Map(selection);
  for (const item of items.slice(first, last + 1)) {
    if (on) next.set(item.id, item);
    else next.delete(item.id);
  }
  return next;
}

/** Add all of these to the selection. */
export const pickAll = <T extends { id: string }>(items: readonly T[]): Selection<T> =>
  new Map(items.map((item) => [item.id, item]));

/** Split a list into parts of this size. */
export function inParts<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let start = 0; start < items.length; start += size) parts.push(items.slice(start, start + size));
  return parts;
}
