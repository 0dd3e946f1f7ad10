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
import { notify } from "../../ui/toast";
import css from "./chat.module.css";
import { type Call, calls, clockOf, isAnswer, pictures, type Result, words } from "./content";
import { MemoryUpdate } from "./MemoryUpdate";
import { Pictures } from "./Pictures";
import { ToolCall } from "./ToolCall";

/** The result of a tool call of the message with this number. */
export type Results = (seq: number, call: Call) => Result | undefined;
type Props = {
  message: Stored;
  agent: Agent | undefined;
  results: Results;
  marked: boolean;
  /** A turn was recorded, so that Why can explain the answer. */
  explained: boolean;
  /** The previous message has the same author. */
  continued: boolean;
};

export const Message = memo(function Message({ message, agent, results, marked, explained, continued }: Props) {
  const text = words(message);
  const isOwn = message.role === "user";
  const name = isOwn ? "You" : message.role === "system" ? "System" : (message.author ?? agent?.name ?? "Agent");
  const called = calls(message);
  return (
    <Bubble isOwn={isOwn} name={name} agent={agent} marked={marked} continued={continued}>
      {text && <Markdown text={text} inline={withRefs} />}
      <Pictures of={pictures(message)} />
      {called.map((call, index) => {
        const result = results(message.seq, call);
        return (
          <div key={call.id || index} className={css.growing}>
            <ToolCall call={call} result={result} />
            {result && <MemoryUpdate agent={agent?.name ?? name} tool={call.name} result={result} />}
          </div>
        );
      })}
      {called.length === 0 && <Foot message={message} text={text} explained={explained} />}
    </Bubble>
  );
});

type BubbleProps = {
  isOwn: boolean;
  name: string;
  agent?: Agent;
  marked?: boolean;
  continued?: boolean;
  children: ReactNode;
};

/** The frame of a message. */
export function Bubble({ isOwn, name, agent, marked = false, continued = false, children }: BubbleProps) {
  return (
    <article className={`${css.said} ${isOwn ? css.mine : ""} ${marked ? css.marked : ""}`} aria-label={`${name} said`}>
      {!isOwn && !continued && (
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
      () => notify("Copied."),
      () => notify("This browser does not allow copying. Select the text instead."),
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
