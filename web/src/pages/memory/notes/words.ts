// Texts that say who changed the notes, and how.
const SOURCES: Record<string, string> = {
  user: "a person",
  agent: "the agent",
  tool: "a tool",
  import: "an import",
  admin: "an administrator",
};
const OPERATIONS: Record<string, string> = {
  overwrite: "Rewritten",
  append: "Added at the end",
  prepend: "Added at the top",
  replace_section: "A section rewritten",
  delete_section: "A section removed",
  clear: "Emptied",
  restore: "An older version restored",
};

export const sourceName = (source: string) => SOURCES[source] ?? source;
export const operationName = (operation: string, version = 0) =>
  version === 1 ? "Written" : (OPERATIONS[operation] ?? operation);
export const linesOf = (amount: number) => `${amount} ${amount === 1 ? "line" : "lines"}`;
