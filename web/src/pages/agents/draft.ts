// The unsaved settings of an agent: the changes made here, and concurrent changes by someone else.
import type { Agent } from "../../api";

export type Draft = Pick<Agent, "prompt" | "model" | "model_label" | "tools" | "color" | "icon" | "active">;
export type Part = keyof Draft;
export const PARTS: Part[] = ["prompt", "model", "model_label", "tools", "color", "icon", "active"];
export const BLANK: Draft = { prompt: "", model: "", model_label: "", tools: [], color: "", icon: "", active: true };
export const NAMES: Record<Part, string> = {
  prompt: "Prompt",
  model: "Model",
  model_label: "Shown as",
  tools: "Tools",
  color: "Colour",
  icon: "Icon",
  active: "Active",
};

export const draftOf = ({ prompt, model, model_label, tools, color, icon, active }: Draft): Draft => ({
  prompt,
  model,
  model_label,
  tools,
  color,
  icon,
  active,
});

/** The fields in which two drafts differ; the order of tools does not matter. */
export const differences = (first: Draft, second: Draft): Part[] =>
  PARTS.filter((part) => written(first, part) !== written(second, part));

/** Only the changed fields, as the body of an update. */
export function changes(before: Draft, after: Draft): Partial<Draft> {
  return Object.fromEntries(differences(before, after).map((part) => [part, after[part]]));
}

/** Merge: my values for the fields that I changed, the stored values for the others. */
export const merged = (base: Draft, mine: Draft, theirs: Draft): Draft => ({
  ...draftOf(theirs),
  ...changes(base, mine),
});

/** A field as text. */
export function written(draft: Draft, part: Part): string {
  if (part === "active") return draft.active ? "yes" : "no";
  return part === "tools" ? [...draft.tools].sort().join(", ") : draft[part];
}
