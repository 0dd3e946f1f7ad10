// One message: author, text, images, tool calls, time, cost, and the link to Why.
import { memo, type ReactNode, useState } from "react";
import type { Agent, Message as Stored } from "../../api/index";
import { to } from "../../app/route";
import { withRefs } from "../../refs/RefText";
import { AgentMark } from "../../ui/AgentMark";
import { money } from "../../ui/chart";
import { Link } from "../../ui/Link";
import { Markdown } from "../../ui/Markdown";
import { count, moment } from "../../ui/time";
import { say } from "../../ui/toast";
import css from "./chat.module.css";
import { MemoryUpdate } from "./MemoryUpdate";
import { Pictures } from "./Pictures";
import { type Call, calls, clockOf, isAnswer, pictures, type Result, words } from "./said";
import { ToolCall } from "./ToolCall";

/** What a tool answered to a call of the message with a number. */
export type Results = (seq: number, call: Call) => Result | undefined;
type Shown = {
  message: Stored;
  agent: Agent | undefined;
  results: Results;
  marked: boolean;
  /** A turn was recorded, so that Why can explain the answer. */
  explained: boolean;
  /** Whoever spoke before goes on. */
  goesOn: boolean;
};

export const Message = memo(function Message({ message, agent, results, marked, explained, goesOn }: Shown) {
  const text = words(message);
  const mine = message.role === "user";
  const name = mine ? "You" : message.role === "system" ? "System" : (message.author ?? agent?.name ?? "Agent");
  const called = calls(message);
  return (
    <Bubble mine={mine} name={name} agent={agent} marked={marked} goesOn={goesOn}>
      {text && <Markdown text={text} inline={withRefs} />}
      <Pictures of={pictures(message)} />
      {called.map((call, place) => {
        const result = results(message.seq, call);
        return (
          <div key={call.id || place} className={css.growing}>
            <ToolCall call={call} result={result} />
            {result && <MemoryUpdate agent={agent?.name ?? name} tool={call.name} result={result} />}
          </div>
        );
      })}
      {called.length === 0 && <Foot message={message} text={text} explained={explained} />}
    </Bubble>
  );
});

type Around = { mine: boolean; name: string; agent?: Agent; marked?: boolean; goesOn?: boolean; children: ReactNode };

/** The frame of a message. */
export function Bubble({ mine, name, agent, marked = false, goesOn = false, children }: Around) {
  return (
    <article className={`${css.said} ${mine ? css.mine : ""} ${marked ? css.marked : ""}`} aria-label={`${name} said`}>
      {!mine && !goesOn && (
        <h2 className={css.speaker}>
          <AgentMark name={name} color={agent?.color} icon={agent?.icon} /> {name}
        </h2>
      )}
      {children}
    </article>
  );
}

function Foot({ message, text, explained }: { message: Stored; text: string; explained: boolean }) {
  const [more, setMore] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say("Copied."),
      () => say("This browser does not allow copying. Select the text instead."),
    );
  return (
    <footer className={css.foot}>
      <time dateTime={message.created_at} title={moment(message.created_at)}>
        {clockOf(message.created_at)}
      </time>
      {explained && isAnswer(message) && (
        <Link className={css.act} href={to(["why"], { session: message.session, seq: String(message.seq) })}>
          Why
        </Link>
      )}
      {text && (
        <button type="button" className={`link ${css.act}`} onClick={copy}>
          Copy
        </button>
      )}
      {message.role === "assistant" && (
        <button type="button" className={`link ${css.act}`} aria-expanded={more} onClick={() => setMore(!more)}>
          {more ? "Less" : "Cost"}
        </button>
      )}
      {more && <Cost message={message} />}
    </footer>
  );
}

function Cost({ message }: { message: Stored }) {
  const spent = message.tokens_in !== null || message.tokens_out !== null;
  return (
    <span>
      {spent
        ? `${count(message.tokens_in ?? 0)} tokens in, ${count(message.tokens_out ?? 0)} out`
        : `about ${count(message.tokens)} tokens`}
      {message.cost !== null && `, ${money(message.cost)}`}
      {(message.content as { cut?: boolean }).cut && ", cut off by the model’s limit"}
    </span>
  );
}
