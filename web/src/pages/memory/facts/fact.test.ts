import { expect, test } from "vitest";
import type { Entity, Fact, FactChange } from "../../../api/index";
import { fullDate } from "../../../ui/time";
import { byDay, bySubject, isPast, isUndoable, joinRepeats, stepsOf, validity } from "./fact";

const fact = (values: Partial<Fact>): Fact =>
  ({ id: "1", subject: "user", status: "active", valid_from: null, valid_to: null, ...values }) as Fact;
const change = (
  step: string,
  action: FactChange["action"],
  statement: string,
  values: Partial<FactChange> = {},
): FactChange => ({
  fact: statement,
  statement,
  action,
  source: "user",
  step,
  undone: false,
  at: "2026-05-01T00:00:00Z",
  evidence: [],
  ...values,
});

test("facts are grouped by subject, the user first, whatever the case of the name", () => {
  const groups = bySubject([
    fact({ subject: "Clara" }),
    fact({ subject: "Ben" }),
    fact({ subject: "user" }),
    fact({ subject: "clara" }),
  ]);
  expect(groups.map(({ subject, facts }) => [subject, facts.length])).toEqual([
    ["user", 1],
    ["Clara", 2],
    ["Ben", 1],
  ]);
  expect(bySubject([])).toEqual([]);
});

test("facts about all names of a person are together", () => {
  const clara: Entity = { name: "Clara", aliases: ["the user's sister"], proposed: ["Klara"], facts: 2 };
  const groups = bySubject([fact({ subject: "the user's sister" }), fact({ subject: "Clara" })], [clara]);
  expect(groups).toMatchObject([{ subject: "Clara", aliases: ["the user's sister"] }]);
});

test("the time in which a fact is true", () => {
  const [from, to] = ["2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"];
  expect(validity({ valid_from: null, valid_to: null })).toBe("");
  expect(validity({ valid_from: from, valid_to: null })).toBe("since 1 May 2026");
  expect(validity({ valid_from: null, valid_to: to })).toBe("until 1 Jun 2026");
  expect(validity({ valid_from: from, valid_to: to })).toBe("from 1 May 2026 to 1 Jun 2026");
  expect(isPast(fact({ valid_to: to }), Date.parse(to))).toBe(true);
  expect(isPast(fact({ valid_to: to }), Date.parse(from))).toBe(false);
  expect(isPast(fact({ status: "retracted" }))).toBe(true);
});

test("changes of one step are one line; steps are newest first", () => {
  const steps = stepsOf([
    change("1", "added", "Clara lives in Lisbon.", { source: "learning" }),
    change("2", "replaced", "Clara lives in Lisbon."),
    change("2", "added", "Clara lives in Porto."),
    change("3", "confirmed", "Clara lives in Porto.", { undone: true }),
  ]);
  expect(steps.map(({ source, undone, lines }) => ({ source, undone, lines }))).toEqual([
    {
      source: "user",
      undone: true,
      lines: [{ label: "Confirmed", fact: "Clara lives in Porto.", statement: "Clara lives in Porto." }],
    },
    {
      source: "user",
      undone: false,
      lines: [
        {
          label: "Changed",
          fact: "Clara lives in Porto.",
          statement: "Clara lives in Porto.",
          before: "Clara lives in Lisbon.",
        },
      ],
    },
    {
      source: "learning",
      undone: false,
      lines: [{ label: "Added", fact: "Clara lives in Lisbon.", statement: "Clara lives in Lisbon." }],
    },
  ]);
});

test("an undone step is marked, and cannot be undone again", () => {
  const changes = [change("1", "added", "x", { undone: true }), change("2", "undone", "x"), change("2", "undone", "y")];
  expect(stepsOf(changes)[0]?.lines).toEqual([{ label: "Undid a change" }]);
  expect(isUndoable(changes)).toBe(false);
  expect(isUndoable([change("1", "added", "x")])).toBe(true);
});

test("steps of one day are together, each with its messages once", () => {
  const message = { session: "trip", seq: 1 };
  const steps = stepsOf([
    change("1", "added", "x", { at: "2026-05-01T12:00:00Z" }),
    change("2", "replaced", "x", { at: "2026-05-02T11:00:00Z", evidence: [message] }),
    change("2", "added", "y", { at: "2026-05-02T11:00:00Z", evidence: [message] }),
    change("3", "confirmed", "y", { at: "2026-05-02T12:00:00Z" }),
  ]);
  expect(byDay(steps).map(({ day, steps }) => [day, steps.map((step) => step.id)])).toEqual([
    [fullDate("2026-05-02T12:00:00Z"), ["3", "2"]],
    [fullDate("2026-05-01T12:00:00Z"), ["1"]],
  ]);
  expect(steps[1]?.evidence).toEqual([message]);
});

test("a fact that is said again and again is one step", () => {
  const said = (step: string, seq: number, values: Partial<FactChange> = {}) =>
    change(step, "supported", "x", { evidence: [{ session: "trip", seq }], ...values });
  const steps = stepsOf([change("1", "added", "x"), said("2", 2), said("3", 3), said("4", 4, { undone: true })]);
  expect(joinRepeats(steps).map(({ id, evidence }) => [id, evidence.map(({ seq }) => seq)])).toEqual([
    ["4", [4]],
    ["3", [2, 3]],
    ["1", []],
  ]);
});
