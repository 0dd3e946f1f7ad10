// A context report for display: layers in prompt order, shares of the budget, changes.
import type { Report } from "../../api/index";

export type Item = { layer: string; source: string; tokens: number; reason: string };
export type Layer = { name: string; title: string; about: string; colour: string };
export type Group = { layer: Layer; items: Item[]; tokens: number };

const mixed = (name: string) => `color-mix(in srgb, var(${name}) 55%, var(--raised))`;
export const LAYERS: readonly Layer[] = [
  ["system", "Instructions", "the agent’s prompt", "var(--layer-0)"],
  ["private", "Entries", "the agent’s core entries and last week’s journal", "var(--layer-1)"],
  ["notes", "Notes", "the long-term notes about this user", "var(--layer-2)"],
  ["summary", "Summary", "replaces the older messages", "var(--layer-3)"],
  ["facts", "Facts", "what is known about the user and those they talk about", mixed("--layer-3")],
  ["references", "References", "descriptions of large outputs that the agent can open", "var(--layer-4)"],
  ["window", "Recent turns", "the latest messages, verbatim", "var(--layer-5)"],
  ["state", "State", "values set for this user or conversation", "var(--layer-6)"],
  ["whiteboard", "Whiteboard", "lines that agents share", mixed("--layer-6")],
  ["recall", "Recalled", "search hits for this message", "var(--layer-7)"],
  ["message", "New message", "the message to answer", "var(--layer-8)"],
  ["frame", "Framing", "headings and separators around the parts", mixed("--layer-8")],
].map(([name, title, about, colour]) => ({ name, title, about, colour }) as Layer);

/** The items of a report as objects. */
export const itemsOf = (rows: Report["items"]): Item[] =>
  rows.map(([layer, source, tokens, reason]) => ({ layer, source, tokens, reason }));

/** Items by their layers, in the order of the prompt; a layer that this page does not know comes last. */
export function grouped(items: readonly Item[]): Group[] {
  const names = new Set([...LAYERS.map((layer) => layer.name), ...items.map((item) => item.layer)]);
  return [...names].flatMap((name) => {
    const layerItems = items.filter((item) => item.layer === name);
    if (!layerItems.length) return [];
    const layer = LAYERS.find((item) => item.name === name) ?? {
      name,
      title: name,
      about: "",
      colour: "var(--layer-8)",
    };
    return [{ layer, items: layerItems, tokens: layerItems.reduce((sum, item) => sum + item.tokens, 0) }];
  });
}

/** A share in percent for display. */
export function percent(part: number, total: number): string {
  const share = total > 0 ? (100 * part) / total : 0;
  if (share > 0 && share < 1) return "< 1 %";
  return share > 99 && share < 100 ? "> 99 %" : `${Math.round(share)} %`;
}

export const keyOf = (item: Item) => `${item.layer} ${item.source}`;

/** The items added and dropped between two reports, without the message and the frame. */
export function changes(before: readonly Item[], after: readonly Item[]): { added: Set<string>; fell: Item[] } {
  const [then, now] = [new Set(before.map(keyOf)), new Set(after.map(keyOf))];
  const counted = (item: Item) => item.layer !== "frame" && item.layer !== "message";
  return {
    added: new Set(after.filter((item) => counted(item) && !then.has(keyOf(item))).map(keyOf)),
    fell: before.filter((item) => counted(item) && !now.has(keyOf(item))),
  };
}
