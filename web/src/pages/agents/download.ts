// A file for the person who asked for it, made here.
export function download(name: string, data: unknown): void {
  const address = URL.createObjectURL(new Blob([JSON.stringify(data, null, 2)], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A name for a file about an agent, of letters that any disk takes. */
export function fileName(agent: string, what: string, now = new Date()): string {
  const plain = agent.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "") || "agent";
  return `${plain}-${what}-${now.toISOString().slice(0, 10)}.json`;
}
