// The files dropped onto the page, including those in folders, with their paths.

export type Dropped = { file: File; path: string };

/** The files that were chosen with a button. */
export const chosen = (files: FileList): Dropped[] =>
  [...files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

/** The files that were dropped; those that are hidden in a folder are left out. */
export async function dropped(data: DataTransfer): Promise<Dropped[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return chosen(data.files);
  const found = await Promise.all(entries.map((entry) => (entry ? inside(entry) : [])));
  return found.flat();
}

async function inside(entry: FileSystemEntry): Promise<Dropped[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    return [{ file, path: entry.fullPath.replace(/^\//, "") }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (!some.length) break; // a folder is told in pieces
    found.push(...some);
  }
  const files = await Promise.all(found.filter((one) => !one.name.startsWith(".")).map(inside));
  return files.flat();
}
