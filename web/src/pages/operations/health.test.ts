import { expect, test } from "vitest";
import type { Status } from "../../api/index";
import { findings, LONG_LAG } from "./health";

const status = (changes: object): Status =>
  ({
    version: "1",
    database: "",
    schema_version: 1,
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
const healthy = {
  trouble: "",
  status: status({}),
  model: "m",
  needsKey: true,
  now: Date.parse("2026-01-01T00:00:30Z"),
};
const states = (list: ReturnType<typeof findings>) => list.map((finding) => finding.state);

test("a healthy server has no other findings", () => {
  expect(new Set(states(findings(healthy)))).toEqual(new Set(["ok"]));
});

test("problems come first, each with a remedy", () => {
  const list = findings({ ...healthy, trouble: "The database cannot be reached.", model: null });
  expect(states(list).slice(0, 2)).toEqual(["problem", "warning"]);
  expect(list[0]?.detail).toBe("The database cannot be reached.");
  for (const finding of list) if (finding.state !== "ok") expect(finding.todo).not.toBe("");
});

test("a server that does not answer is a problem", () => {
  expect(findings({ ...healthy, trouble: undefined, status: undefined })[0]?.subject).toBe("Server");
});

test("vectors pending for long are a problem", () => {
  const wait = (seconds: number) => status({ vectors: { pending: 3, embedding_lag_seconds: seconds } });
  expect(findings({ ...healthy, status: wait(LONG_LAG) })[0]?.state).toBe("ok");
  expect(findings({ ...healthy, status: wait(LONG_LAG + 1) })[0]?.state).toBe("warning");
  expect(findings({ ...healthy, status: status({ embedder: "unavailable: no key" }) })[0]?.state).toBe("problem");
});

test("due work without a worker is a problem", () => {
  const due = { ...healthy, status: status({ work: { summaries: 2, index: 0 } }) };
  expect(findings(due).every((finding) => finding.state === "ok")).toBe(true);
  const later = findings({ ...due, now: Date.parse("2026-01-01T01:00:00Z") });
  expect([later[0]?.state, later[0]?.detail]).toEqual(["warning", "2 to do"]);
  const done = status({ work: { summaries: 2 }, worked_at: "2026-01-01T00:59:00Z" });
  expect(findings({ ...due, status: done, now: Date.parse("2026-01-01T01:00:00Z") })[0]?.state).toBe("ok");
});
