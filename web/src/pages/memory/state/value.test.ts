import { expect, test } from "vitest";
import { exact, left, parse, short, ttl } from "./value";

test("what is left is told as a clock, and days as days", () => {
  expect(left(299)).toBe("4:59");
  expect(left(59.2)).toBe("1:00");
  expect(left(3723)).toBe("1:02:03");
  expect(left(90_000)).toBe("25:00:00");
  expect(left(200_000)).toBe("2 days");
  expect(left(-3)).toBe("0:00");
});

test("what is typed is JSON or it is said what is wrong", () => {
  expect(parse('{"a": 1}')).toEqual({ value: { a: 1 }, wrong: null });
  expect(parse("null")).toEqual({ value: null, wrong: null });
  expect(parse(" ").wrong).toContain("quotes");
  expect(parse("dark").wrong).toContain("not JSON yet");
  expect(parse('{"a": 1,}').wrong).toContain("last comma");
});

test("a number that would be rounded is not sent", () => {
  expect(exact([{ a: 9007199254740991 }])).toBe(true);
  expect(parse('{"id": 9007199254740993}').wrong).toContain("exactly");
  expect(parse("1e400").wrong).toContain("exactly");
});

test("a short value fits into a line", () => {
  expect(short({ a: [1, 2] })).toBe('{"a":[1,2]}');
  expect(short("x".repeat(200))).toBeNull();
});

test("how long a value lasts", () => {
  expect(ttl("never", "", 5)).toBeNull();
  expect(ttl("kept", "", 5.5)).toBe(5.5);
  expect(ttl("day", "", 0)).toBe(86_400);
  expect(ttl("own", "90", 0)).toBe(90);
  expect(ttl("own", "soon", 0)).toBeUndefined();
  expect(ttl("own", "-1", 0)).toBeUndefined();
});
