// How facts and their changes are described, and the order in which they are shown.
import type { Entity, Fact, FactChange } from "../../../api/index";
import { date, fullDate } from "../../../ui/time";

export const ABOUT_USER = "user"; // the subject of facts about the user
export const MAX_CHARACTERS = 1_000;
export type Topic = Fact["topic"];
export const TOPICS: Record<Topic, string> = {
  identity: "Identity",
  people: "People",
  home: "Home",
  work: "Work",
  health: "Health",
  preferences: "Preferences",
  plans: "Plans",
  instructions: "Instructions",
  other: "Other",
};

const SOURCES: Record<string, string> = {
  user: "a person",
  admin: "a person",
  agent: "an agent",
  tool: "a tool",
  import: "an import",
  learning: "a conversation",
};

/** Who stated a fact or changed it: "a person", "a tool". */
export const sourceName = (source: string, agent?: string | null) =>
  (source === "agent" && agent) || (SOURCES[source] ?? source);

/** Where a fact comes from; a person's words in a message are learned from the conversation. */
export function originName({ source, agent, evidence }: Pick<Fact, "source" | "agent" | "evidence">): string {
  const isSaidByPerson = (source === "user" || source === "admin") && evidence.length > 0;
  return sourceName(isSaidByPerson ? "learning" : source, agent);
}

/** The name of a subject for people. */
export const subjectName = (subject: string, user: string) => (subject === ABOUT_USER ? user : subject);

/** When a fact is true: "since 1 May 2026", "until …", "from … to …"; empty if unknown. */
export function validity({ valid_from, valid_to }: Pick<Fact, "valid_from" | "valid_to">): string {
  if (valid_from && valid_to) return `from ${date(valid_from)} to ${date(valid_to)}`;
  if (valid_from) return `since ${date(valid_from)}`;
  return valid_to ? `until ${date(valid_to)}` : "";
}

/** True if a fact holds no longer: it was replaced or retracted, or has ended. */
export const isPast = (fact: Fact, now = Date.now()) =>
  fact.status === "replaced" ||
  fact.status === "retracted" ||
  (fact.valid_to !== null && Date.parse(fact.valid_to) <= now);

/** A person or thing, its other names, and the facts about it. */
export type SubjectGroup = { subject: string; aliases: readonly string[]; facts: Fact[] };

/** Facts by subject: the user first, then the others in the order in which they first appear. */
export function bySubject(facts: readonly Fact[], entities: readonly Entity[] = []): SubjectGroup[] {
  const groups = new Map<string, SubjectGroup>([[ABOUT_USER, { subject: ABOUT_USER, aliases: [], facts: [] }]]);
  for (const fact of facts) {
    const { name, aliases } = entityOf(fact.subject, entities) ?? { name: fact.subject, aliases: [] };
    const key = name.toLowerCase();
    const group = groups.get(key) ?? { subject: name, aliases, facts: [] };
    group.facts.push(fact);
    groups.set(key, { ...group, aliases });
  }
  return [...groups.values()].filter((group) => group.facts.length > 0);
}

/** The person or thing that has a name. */
export function entityOf(subject: string, entities: readonly Entity[]): Entity | undefined {
  const key = subject.toLowerCase();
  return entities.find(({ name, aliases }) => [name, ...aliases].some((other) => other.toLowerCase() === key));
}

export type Step = {
  id: string;
  at: string;
  source: string;
  undone: boolean;
  lines: StepLine[];
  /** The messages that led to it. */
  evidence: FactChange["evidence"];
};
export type StepLine = { label: string; fact?: string; statement?: string; before?: string };

/** Who changed a fact: "by a person", "learned from a conversation". */
export const actorText = (source: string) =>
  source === "learning" ? "learned from a conversation" : `by ${sourceName(source)}`;

const ACTIONS: Record<FactChange["action"], string> = {
  added: "Added",
  supported: "Said again",
  confirmed: "Confirmed",
  retracted: "Retracted",
  replaced: "Changed",
  corrected: "Corrected",
  refined: "Made more exact",
  undone: "Undone",
};

/** The changes of a fact as steps, newest first. An old fact and its replacement are one line of a step. */
export function stepsOf(changes: readonly FactChange[]): Step[] {
  const byStep = new Map<string, FactChange[]>();
  for (const change of changes) byStep.set(change.step, [...(byStep.get(change.step) ?? []), change]);
  return [...byStep.entries()].reverse().map(([id, made]) => {
    const first = made[0] as FactChange;
    return {
      id,
      at: first.at,
      source: first.source,
      undone: made.every((change) => change.undone),
      lines: linesOf(made),
      evidence: distinctMessages(made.flatMap((change) => change.evidence)),
    };
  });
}

/** Steps, newest first, in which a fact that is said again and again is one step with all its messages. */
export function joinRepeats(steps: readonly Step[]): Step[] {
  const joined: Step[] = [];
  for (const step of steps) {
    const newer = joined.at(-1);
    if (newer && isRepeatOf(newer, step)) {
      joined[joined.length - 1] = { ...newer, evidence: [...step.evidence, ...newer.evidence] };
    } else {
      joined.push(step);
    }
  }
  return joined;
}

/** True if both steps only say the same fact again on the same day. */
function isRepeatOf(newer: Step, step: Step): boolean {
  const [line, ...others] = step.lines;
  const [newerLine, ...newerOthers] = newer.lines;
  return (
    others.length + newerOthers.length === 0 &&
    line?.label === ACTIONS.supported &&
    newerLine?.label === ACTIONS.supported &&
    line.fact === newerLine.fact &&
    step.source === newer.source &&
    !step.undone &&
    !newer.undone &&
    fullDate(step.at) === fullDate(newer.at)
  );
}

/** Steps by the day on which they were made, in the same order. */
export function byDay(steps: readonly Step[]): { day: string; steps: Step[] }[] {
  const days: { day: string; steps: Step[] }[] = [];
  for (const step of steps) {
    const day = fullDate(step.at);
    const last = days.at(-1);
    if (last?.day === day) last.steps.push(step);
    else days.push({ day, steps: [step] });
  }
  return days;
}

function distinctMessages(messages: Step["evidence"]): Step["evidence"] {
  return messages.filter(
    ({ session, seq }, index) =>
      messages.findIndex((other) => other.session === session && other.seq === seq) === index,
  );
}

function linesOf(changes: readonly FactChange[]): StepLine[] {
  if (changes.every((change) => change.action === "undone")) return [{ label: "Undid a change" }];
  const added = changes.find((change) => change.action === "added");
  const old = changes.find((change) => ["replaced", "corrected", "refined"].includes(change.action));
  const pair =
    added && old
      ? [{ label: ACTIONS[old.action], fact: added.fact, statement: added.statement, before: old.statement }]
      : [];
  const others = pair.length ? changes.filter((change) => change !== added && change !== old) : changes;
  return [...pair, ...others.map(({ action, fact, statement }) => ({ label: ACTIONS[action], fact, statement }))];
}

/** True if a step can be undone. */
export const isUndoable = (changes: readonly FactChange[]) =>
  changes.some((change) => !change.undone && change.action !== "undone");
