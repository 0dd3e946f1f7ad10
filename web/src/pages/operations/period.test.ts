import { expect, test } from "vitest";
import { called, period, previousPeriod, startOf, starts } from "./period";

const NOW = Date.parse("2026-11-15T14:23:45Z");
const timestamp = (text: string) => Date.parse(text);

test("a day is the last 24 hours, including the current one", () => {
  const day = period("24h", "", "", NOW);
  expect(day).toEqual({ unit: "hour", from: timestamp("2026-11-14T15:00Z"), until: timestamp("2026-11-15T15:00Z") });
  expect(starts(day)).toHaveLength(24);
  expect(previousPeriod(day)).toEqual({
    unit: "hour",
    from: timestamp("2026-11-13T15:00Z"),
    until: timestamp("2026-11-14T15:00Z"),
  });
});

test("days are in UTC and include today", () => {
  const week = period("7d", "", "", NOW);
  expect(week).toEqual({ unit: "day", from: timestamp("2026-11-09"), until: timestamp("2026-11-16") });
  expect(starts(week)).toHaveLength(7);
  expect(starts(period("90d", "", "", NOW))).toHaveLength(90);
  for (const unknown of ["nonsense", "__proto__", "constructor"]) {
    expect(period(unknown, "", "", NOW)).toEqual(week);
  }
});

test("a custom period includes both days, in any order", () => {
  const days = period("own", "2026-03-05", "2026-03-01", NOW);
  expect(days).toEqual({ unit: "day", from: timestamp("2026-03-01"), until: timestamp("2026-03-06") });
  expect(period("own", "2026-03-01", "2026-03-02", NOW).unit).toBe("hour");
  expect(starts(period("own", "2000-01-01", "2026-03-01", NOW))).toHaveLength(366);
  expect(period("own", "", "2026-03-01", NOW)).toEqual(period("7d", "", "", NOW));
});

test.each([
  ["2026-11-15", "2026-11-15T00:00Z"],
  ["2026-11-15T07", "2026-11-15T07:00Z"],
  ["2026-11-15 07", "2026-11-15T07:00Z"],
  ["2026-11-15T07:00", "2026-11-15T07:00Z"],
  ["2026-11-15T07:00Z", "2026-11-15T07:00Z"],
  ["2026-11-15T07:00:00+00:00", "2026-11-15T07:00Z"],
])("%s is a moment", (name, moment) => expect(startOf(name)).toBe(timestamp(moment)));

test("column names", () => {
  expect(called("day", timestamp("2026-11-15"))).toEqual({ name: "Sun, 15 Nov 2026", short: "15 Nov" });
  expect(called("hour", timestamp("2026-11-15T07:00Z")).short).toBe("07:00");
});
