// What is shown as a file: tables for a spreadsheet, which must not take a text for a formula.
type Row = Record<string, unknown>;

/** Rows as CSV, with the names of the columns first. */
export function csv(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((line) => line.map(cell).join(","))
    .join("\r\n");
}

function cell(value: unknown): string {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Give a text to the browser to be kept as a file. */
export function download(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
