// One step in a history of facts: what changed, when, who did it, and the messages that led to it.
import { to } from "../../../app/route";
import { messageAt } from "../../../refs/places";
import { Link } from "../../../ui/Link";
import { Time, timeOfDay } from "../../../ui/time";
import { actorText, type Step, type StepLine } from "./fact";
import css from "./facts.module.css";

const SHOWN_MESSAGES = 3;

/** With `ofDay`, it stands under its day: it shows the time of the day, and its statements open their facts. */
export function StepItem({ step, ofDay = false }: { step: Step; ofDay?: boolean }) {
  const messages = step.evidence.slice(0, SHOWN_MESSAGES);
  const more = step.evidence.length - messages.length;
  return (
    <li className={step.undone ? `${css.step} ${css.undone}` : css.step}>
      {step.lines.map((line) => (
        <p key={`${line.label} ${line.fact}`}>
          <b>{line.label}</b>
          {line.statement && ":"} {line.before && <del>{line.before}</del>} <Statement line={line} linked={ofDay} />
        </p>
      ))}
      <p className="quiet">
        {ofDay ? <time dateTime={step.at}>{timeOfDay(step.at)}</time> : <Time at={step.at} />}, {actorText(step.source)}
        {messages.map(({ session, seq }) => (
          <span key={`${session} ${seq}`}>
            {", "}
            <Link href={messageAt("assistant", session, seq)}>message {seq}</Link>
          </span>
        ))}
        {more > 0 && `, and ${more} more`}
        {step.undone && <span className="chip">undone</span>}
      </p>
    </li>
  );
}

function Statement({ line, linked }: { line: StepLine; linked: boolean }) {
  if (!linked || !line.fact || !line.statement) return line.statement;
  return <Link href={to(["memory", "facts"], { fact: line.fact })}>{line.statement}</Link>;
}
