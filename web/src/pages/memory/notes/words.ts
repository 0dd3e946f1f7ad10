// Texts that say who changed the notes, and how.
const WHO: Record<string, string> = {
  user: "a person",
  agent: "the agent",
  tool: "a tool",
  import: "an import",
  admin: "an administrator",
};
const HOW: Record<string, string> = {
  overwrite: "Rewritten",
  append: "Added at the end",
  prepend: "Added at the top",
  replace_section: "A section rewritten",
  delete_section: "A section removed",
  clear: "Emptied",
  restore: "An older version restored",
};

export const who = (source: string) => WHO[source] ?? source;
export const how = (operation: string, version = 0) => (version === 1 ? "Written" : (HOW[operation] ?? operation));
export const linesOf = (amount: number) => `${amount} ${amount === 1 ? "line" : "lines"}`;
