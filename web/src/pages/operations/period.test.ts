import { expect, test } from "vitest";
import { before, called, period, startOf, starts } from "./period";

const NOW = Date.parse("2026-11-15T14:23:45Z");
const at = (text: string) => Date.parse(text);

test("a day is the last 24 hours, with the one that runs", () => {
  const day = period("24h", "", "", NOW);
  expect(day).toEqual({ unit: "hour", from: at("2026-11-14T15:00Z"), until: at("2026-11-15T15:00Z") });
  expect(starts(day)).toHaveLength(24);
  expect(before(day)).toEqual({ unit: "hour", from: at("2026-11-13T15:00Z"), until: at("2026-11-14T15:00Z") });
});

test("days are those of UTC, today among them", () => {
  const week = period("7d", "", "", NOW);
  expect(week).toEqual({ unit: "day", from: at("2026-11-09"), until: at("2026-11-16") });
  expect(starts(week)).toHaveLength(7);
  expect(starts(period("90d", "", "", NOW))).toHaveLength(90);
  expect(period("nonsense", "", "", NOW)).toEqual(week);
});

test("one's own period has both its ends, whichever came first", () => {
  const own = period("own", "2026-03-05", "2026-03-01", NOW);
  expect(own).toEqual({ unit: "day", from: at("2026-03-01"), until: at("2026-03-06") });
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
])("%s is a moment", (name, moment) => expect(startOf(name)).toBe(at(moment)));

test("names of places", () => {
  expect(called("day", at("2026-11-15"))).toEqual({ name: "Sun, 15 Nov 2026", short: "15 Nov" });
  expect(called("hour", at("2026-11-15T07:00Z")).short).toBe("07:00");
});
