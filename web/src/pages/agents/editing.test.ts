import { expect, test } from "vitest";
import type { Entry } from "../../api";
import { settled } from "./editing";

const now = { id: "a", version: 2, content: "Ada" } as Entry;
const other = { text: "another", version: 7, busy: false };

test("what was saved is no longer edited, and the others are", () => {
  const all = { a: { text: "Ada", version: 1, busy: true }, b: other };
  expect(settled(all, "Ada", now)).toEqual({ b: other });
  expect(settled({ b: other }, "Ada", now)).toEqual({ b: other });
});

test("what was written on while it was being saved is kept, from the new version", () => {
  const all = { a: { text: "Ada, and more", version: 1, busy: true }, b: other };
  expect(settled(all, "Ada", now)).toEqual({ b: other, a: { text: "Ada, and more", version: 2, busy: false } });
});
