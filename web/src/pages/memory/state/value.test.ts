import { expect, test } from "vitest";
import { exact, parse, short, timeLeft, ttl } from "./value";

test("the remaining time is a clock, or days", () => {
  expect(timeLeft(299)).toBe("4:59");
  expect(timeLeft(59.2)).toBe("1:00");
  expect(timeLeft(3723)).toBe("1:02:03");
  expect(timeLeft(90_000)).toBe("25:00:00");
  expect(timeLeft(200_000)).toBe("2 days");
  expect(timeLeft(-3)).toBe("0:00");
});

test("typed text is parsed as JSON, or the error is named", () => {
  expect(parse('{"a": 1}')).toEqual({ value: { a: 1 }, parseError: null });
  expect(parse("null")).toEqual({ value: null, parseError: null });
  expect(parse(" ").parseError).toContain("quotes");
  expect(parse("dark").parseError).toContain("not valid JSON yet");
  expect(parse('{"a": 1,}').parseError).toContain("no comma after it");
});

test("a number that would be rounded is not sent", () => {
  expect(exact([{ a: 9007199254740991 }])).toBe(true);
  expect(parse('{"id": 9007199254740993}').parseError).toContain("exactly");
  expect(parse("1e400").parseError).toContain("exactly");
});

test("a short value fits on one line", () => {
  expect(short({ a: [1, 2] })).toBe('{"a":[1,2]}');
  expect(short("x".repeat(200))).toBeNull();
});

test("the lifetime of a value", () => {
  expect(ttl("never", "", 5)).toBeNull();
  expect(ttl("kept", "", 5.5)).toBe(5.5);
  expect(ttl("day", "", 0)).toBe(86_400);
  expect(ttl("own", "90", 0)).toBe(90);
  expect(ttl("own", "soon", 0)).toBeUndefined();
  expect(ttl("own", "-1", 0)).toBeUndefined();
});
