import { expect, test } from "vitest";
import type { Status } from "../../api/index";
import { findings, LONG_LAG } from "./health";

const status = (changes: object): Status =>
  ({
    version: "1",
    database: "",
    schema: 1,
    tenants: 1,
    rows: {},
    embedder: "hash-1",
    vectors: {},
    model: "m",
    work: {},
    started_at: "2026-01-01T00:00:00Z",
    worked_at: null,
    ...changes,
  }) as Status;
const well = { trouble: "", status: status({}), model: "m", needsKey: true, now: Date.parse("2026-01-01T00:00:30Z") };
const states = (found: ReturnType<typeof findings>) => found.map((one) => one.state);

test("where all is well nothing else is said", () => {
  expect(new Set(states(findings(well)))).toEqual(new Set(["ok"]));
});

test("problems come first, each with what to do", () => {
  const found = findings({ ...well, trouble: "The database cannot be reached.", model: null });
  expect(states(found).slice(0, 2)).toEqual(["problem", "warning"]);
  expect(found[0]?.found).toBe("The database cannot be reached.");
  for (const one of found) if (one.state !== "ok") expect(one.todo).not.toBe("");
});

test("a server that does not answer is a problem", () => {
  expect(findings({ ...well, trouble: undefined, status: undefined })[0]?.what).toBe("Server");
});

test("vectors that wait for long wait for somebody", () => {
  const wait = (seconds: number) => status({ vectors: { pending: 3, embedding_lag_seconds: seconds } });
  expect(findings({ ...well, status: wait(LONG_LAG) })[0]?.state).toBe("ok");
  expect(findings({ ...well, status: wait(LONG_LAG + 1) })[0]?.state).toBe("warning");
  expect(findings({ ...well, status: status({ embedder: "cannot be used now: no" }) })[0]?.state).toBe("problem");
});

test("work that nobody does is told", () => {
  const due = { ...well, status: status({ work: { summaries: 2, index: 0 } }) };
  expect(findings(due).every((one) => one.state === "ok")).toBe(true);
  const later = findings({ ...due, now: Date.parse("2026-01-01T01:00:00Z") });
  expect([later[0]?.state, later[0]?.found]).toEqual(["warning", "2 to do"]);
  const done = status({ work: { summaries: 2 }, worked_at: "2026-01-01T00:59:00Z" });
  expect(findings({ ...due, status: done, now: Date.parse("2026-01-01T01:00:00Z") })[0]?.state).toBe("ok");
});
