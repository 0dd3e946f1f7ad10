import { expect, test } from "vitest";
import type { Entry } from "../../api";
import { afterSave } from "./editing";

const now = { id: "a", version: 2, content: "Ada" } as Entry;
const other = { text: "another", version: 7, busy: false };

test("a saved edit is closed, and the others stay", () => {
  const edits = { a: { text: "Ada", version: 1, busy: true }, b: other };
  expect(afterSave(edits, "Ada", now)).toEqual({ b: other });
  expect(afterSave({ b: other }, "Ada", now)).toEqual({ b: other });
});

test("text typed during a save is kept, based on the new version", () => {
  const edits = { a: { text: "Ada, and more", version: 1, busy: true }, b: other };
  expect(afterSave(edits, "Ada", now)).toEqual({ b: other, a: { text: "Ada, and more", version: 2, busy: false } });
});
