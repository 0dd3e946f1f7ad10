import { expect, test } from "vitest";
import { faded, fading, inked, life } from "./fade";

const week = { created_at: "2026-11-01T00:00:00Z", expires_at: "2026-11-08T00:00:00Z", expired: false };
const at = (moment: string) => Date.parse(moment);

test("a journal entry goes from whole to nothing in its week", () => {
  expect(life(week, at("2026-11-01T00:00:00Z"))).toBe(1);
  expect(life(week, at("2026-11-04T12:00:00Z"))).toBe(0.5);
  expect(life(week, at("2026-11-20T00:00:00Z"))).toBe(0);
  expect(fading(week, at("2026-11-01T00:00:05Z"))).toBe("fades in 7 days");
  expect(fading(week, at("2026-11-06T00:00:00Z"))).toBe("fades in 2 days");
  expect(fading(week, at("2026-11-07T19:00:00Z"))).toBe("fades in 5 hours");
  expect(fading(week, at("2026-11-07T23:50:00Z"))).toBe("fades within the hour");
});

test("it fades while somebody looks, whatever the server said before", () => {
  expect(faded(week, at("2026-11-07T23:59:59Z"))).toBe(false);
  expect(faded(week, at("2026-11-08T00:00:00Z"))).toBe(true);
  expect(fading(week, at("2026-11-09T00:00:00Z"))).toBe("faded yesterday");
});

test("what is in the core stays", () => {
  const core = { created_at: "2020-01-01T00:00:00Z", expires_at: null, expired: false };
  expect(life(core, at("2026-11-01T00:00:00Z"))).toBeNull();
  expect(fading(core, at("2026-11-01T00:00:00Z"))).toBe("");
  expect(inked(null)).toBeUndefined();
  expect(inked(0.5)).toContain("50%");
});
