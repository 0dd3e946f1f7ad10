import { expect, test } from "vitest";
import { faded, fading, inked, life } from "./fade";

const week = { created_at: "2026-11-01T00:00:00Z", expires_at: "2026-11-08T00:00:00Z", expired: false };
const timestamp = (moment: string) => Date.parse(moment);

test("the lifetime of a journal entry goes from 1 to 0 in a week", () => {
  expect(life(week, timestamp("2026-11-01T00:00:00Z"))).toBe(1);
  expect(life(week, timestamp("2026-11-04T12:00:00Z"))).toBe(0.5);
  expect(life(week, timestamp("2026-11-20T00:00:00Z"))).toBe(0);
  expect(fading(week, timestamp("2026-11-01T00:00:05Z"))).toBe("expires in 7 days");
  expect(fading(week, timestamp("2026-11-06T00:00:00Z"))).toBe("expires in 2 days");
  expect(fading(week, timestamp("2026-11-07T19:00:00Z"))).toBe("expires in 5 hours");
  expect(fading(week, timestamp("2026-11-07T23:50:00Z"))).toBe("expires within the hour");
});

test("an entry expires while it is shown", () => {
  expect(faded(week, timestamp("2026-11-07T23:59:59Z"))).toBe(false);
  expect(faded(week, timestamp("2026-11-08T00:00:00Z"))).toBe(true);
  expect(fading(week, timestamp("2026-11-09T00:00:00Z"))).toBe("expired yesterday");
});

test("core entries do not expire", () => {
  const core = { created_at: "2020-01-01T00:00:00Z", expires_at: null, expired: false };
  expect(life(core, timestamp("2026-11-01T00:00:00Z"))).toBeNull();
  expect(fading(core, timestamp("2026-11-01T00:00:00Z"))).toBe("");
  expect(inked(null)).toBeUndefined();
  expect(inked(0.5)).toContain("50%");
});
