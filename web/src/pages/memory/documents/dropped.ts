// The files dropped onto the page, including those in folders, with their paths.

export type ChosenFile = { file: File; path: string };

/** The files that were chosen with a button. */
export const chosenFiles = (files: FileList): ChosenFile[] =>
  [...files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

/** The dropped files, without hidden files in folders. */
export async function dropped(data: DataTransfer): Promise<ChosenFile[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return chosenFiles(data.files);
  const files = await Promise.all(entries.map((entry) => (entry ? filesIn(entry) : [])));
  return files.flat();
}

async function filesIn(entry: FileSystemEntry): Promise<ChosenFile[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    return [{ file, path: entry.fullPath.replace(/^\//, "") }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const children: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (!some.length) break; // a folder is read in pieces
    children.push(...some);
  }
  const files = await Promise.all(children.filter((child) => !child.name.startsWith(".")).map(filesIn));
  return files.flat();
}
