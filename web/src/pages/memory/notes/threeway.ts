// Three-way merge of two changed texts, line by line; where both changed the same lines, a person chooses.
import { common, lines } from "./diff";

export type Kind = "same" | "mine" | "theirs" | "both" | "conflict";
/** A group of lines: the original, and both sides. */
export type Chunk = { kind: Kind; base: string[]; mine: string[]; theirs: string[] };
export type Choice = "mine" | "theirs" | "all";

/** Compare both sides with `base` and return the chunks in order. */
export function compare(base: string, mine: string, theirs: string): Chunk[] {
  const [was, a, b] = [lines(base), lines(mine), lines(theirs)];
  const inA = new Map(common(was, a));
  const inB = new Map(common(was, b));
  const chunks: Chunk[] = [];
  let [at, atA, atB] = [0, 0, 0];
  for (let next = 0; next <= was.length; next++) {
    const end = next === was.length;
    if (!end && !(inA.has(next) && inB.has(next))) continue;
    const [toA, toB] = end ? [a.length, b.length] : [inA.get(next) as number, inB.get(next) as number];
    add(chunks, was.slice(at, next), a.slice(atA, toA), b.slice(atB, toB));
    if (!end) add(chunks, [was[next] as string], [was[next] as string], [was[next] as string]);
    [at, atA, atB] = [next + 1, toA + 1, toB + 1];
  }
  return chunks;
}

function add(chunks: Chunk[], base: string[], mine: string[], theirs: string[]): void {
  if (!base.length && !mine.length && !theirs.length) return;
  const kind = kindOf(base, mine, theirs);
  const last = chunks.at(-1);
  if (last && kind === "same" && last.kind === "same") {
    for (const part of [last.base, last.mine, last.theirs]) part.push(...base);
  } else chunks.push({ kind, base, mine, theirs });
}

const equal = (a: string[], b: string[]) => a.length === b.length && a.every((line, index) => line === b[index]);

function kindOf(base: string[], mine: string[], theirs: string[]): Kind {
  const [byMe, byThem] = [!equal(base, mine), !equal(base, theirs)];
  if (!byMe && !byThem) return "same";
  if (byMe && byThem) return equal(mine, theirs) ? "both" : "conflict";
  return byMe ? "mine" : "theirs";
}

export const conflicts = (chunks: readonly Chunk[]): number =>
  chunks.filter((chunk) => chunk.kind === "conflict").length;

/** The merged text. `choices` resolve the conflicts in order; an unresolved one is marked in the text. */
export function merged(chunks: readonly Chunk[], choices: readonly (Choice | undefined)[] = []): string {
  let index = 0;
  return chunks
    .flatMap((chunk) => (chunk.kind === "conflict" ? chosenLines(chunk, choices[index++]) : resolvedLines(chunk)))
    .join("\n");
}

const resolvedLines = (chunk: Chunk) => (chunk.kind === "theirs" ? chunk.theirs : chunk.mine);

/** The lines of a resolved conflict; for `all`, the lines that were saved first come first. */
function chosenLines(chunk: Chunk, choice: Choice | undefined): string[] {
  if (choice === "all") return [...chunk.theirs, ...chunk.mine];
  if (choice) return chunk[choice];
  return ["<<<<<<< yours", ...chunk.mine, "=======", ...chunk.theirs, ">>>>>>> theirs"];
}
