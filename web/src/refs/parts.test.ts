import { expect, test } from "vitest";
import { following, partOf, pattern } from "./parts";

test("plain words are escaped", () => {
  expect(pattern("a.b (c)", false)).toBe("(?i)a\\.b \\(c\\)");
  expect(pattern("a.b (c)", true)).toBe("a.b (c)");
});

test("typed text is parsed as a part", () => {
  expect(partOf("page", " 3 ", false)).toEqual({ page: 3 });
  expect(partOf("page", "0", false)).toBeNull();
  expect(partOf("lines", "10 – 20", false)).toEqual({ lines: "10-20" });
  expect(partOf("lines", "7", false)).toEqual({ lines: "7-7" });
  expect(partOf("lines", "20-10", false)).toBeNull();
  expect(partOf("head", "20", false)).toEqual({ head: 20 });
  expect(partOf("path", "items[0]", false)).toEqual({ path: "$.items[0]" });
  expect(partOf("path", "$..name", false)).toEqual({ path: "$..name" });
  expect(partOf("grep", " ", true)).toBeNull();
});

test("the part that follows", () => {
  expect(following({ page: 4 })).toEqual({ page: 4 });
  expect(following({ lines: [41, 80] })).toEqual({ lines: "41-80" });
  expect(following({})).toBeNull();
});
