import { expect, test } from "vitest";
import { compare, conflicts, merged } from "./threeway";

const mergedText = (base: string, mine: string, theirs: string) => merged(compare(base, mine, theirs));

test("changes of one side only are taken", () => {
  expect(mergedText("a\nb\nc", "a\nb\nc", "a\nb\nc")).toBe("a\nb\nc");
  expect(mergedText("a\nb\nc", "A\nb\nc", "a\nb\nc")).toBe("A\nb\nc");
  expect(mergedText("a\nb\nc", "a\nb\nc", "a\nb\nC")).toBe("a\nb\nC");
  expect(mergedText("a\nb\nc", "A\nb\nc", "a\nb\nC")).toBe("A\nb\nC");
  expect(mergedText("a\nb\nc", "a\nc", "a\nb\nc\nd")).toBe("a\nc\nd");
  expect(mergedText("", "", "new")).toBe("new");
});

test("the same change on both sides appears once", () => {
  expect(mergedText("a\nb", "a\nx\nb", "a\nx\nb")).toBe("a\nx\nb");
  expect(compare("a", "b", "b").map((chunk) => chunk.kind)).toEqual(["both"]);
});

test("lines changed on both sides are a conflict, marked until it is resolved", () => {
  const chunks = compare("a\nb\nc", "a\nmine\nc", "a\ntheirs\nc");
  expect(conflicts(chunks)).toBe(1);
  expect(merged(chunks)).toBe("a\n<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> theirs\nc");
  expect(merged(chunks, ["mine"])).toBe("a\nmine\nc");
  expect(merged(chunks, ["theirs"])).toBe("a\ntheirs\nc");
  expect(merged(chunks, ["all"])).toBe("a\ntheirs\nmine\nc");
});

test("two additions at the end, or a removal of changed lines, are conflicts", () => {
  expect(conflicts(compare("a", "a\nmine", "a\ntheirs"))).toBe(1);
  expect(conflicts(compare("a\nb\nc", "a\nc", "a\nB\nc"))).toBe(1);
  expect(conflicts(compare("", "mine", "theirs"))).toBe(1);
});

test("choices apply to conflicts in order", () => {
  const chunks = compare("1\nx\n2\ny\n3", "m1\nx\nm2\ny\n3", "t1\nx\n2\ny\nt3");
  expect(conflicts(chunks)).toBe(1);
  expect(merged(chunks, ["theirs"])).toBe("t1\nx\nm2\ny\nt3");
});

test("a merge that keeps both sides of every conflict loses no line", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % below;
  };
  const edited = (text: string[], name: string) =>
    text.flatMap((line, index) => {
      const dice = random(6);
      if (dice === 0) return [];
      if (dice === 1) return [line, `${name}${index}`];
      return dice === 2 ? [`${name}${index}`] : [line];
    });
  for (let round = 0; round < 200; round++) {
    const base = Array.from({ length: random(9) }, (_, index) => `${index % 4}`);
    const [mine, theirs] = [edited(base, "m"), edited(base, "t")];
    const chunks = compare(base.join("\n"), mine.join("\n"), theirs.join("\n"));
    for (const side of ["base", "mine", "theirs"] as const) {
      expect(chunks.flatMap((chunk) => chunk[side])).toEqual({ base, mine, theirs }[side]);
    }
    const result = merged(
      chunks,
      chunks.map(() => "all" as const),
    ).split("\n");
    for (const line of [...mine, ...theirs]) if (/^[mt]/.test(line)) expect(result).toContain(line);
  }
});
