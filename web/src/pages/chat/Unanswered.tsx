// Messages that are not stored yet, the answer while it is written, and failures.
import type { Agent } from "../../api/index";
import { withRefs } from "../../refs/RefText";
import { Markdown } from "../../ui/Markdown";
import css from "./chat.module.css";
import { type AgentReply, paragraphs } from "./live";
import { Bubble } from "./Message";
import type { OutgoingMessage } from "./outbox";
import type { Row } from "./rows";
import { ToolCall } from "./ToolCall";
import type { Talk } from "./talk";

export function OutgoingBubble({ outgoing }: { outgoing: OutgoingMessage }) {
  return (
    <Bubble isOwn name="You">
      {outgoing.text && <Markdown text={outgoing.text} inline={withRefs} />}
      {outgoing.images.length > 0 && (
        <div className={css.pictures}>
          {outgoing.images.map((image, index) => (
            <img key={index} src={image} alt="Attached to this message" />
          ))}
        </div>
      )}
    </Bubble>
  );
}

export function Growing({ voice, agent }: { voice: AgentReply; agent: Agent | undefined }) {
  return (
    <Bubble isOwn={false} name={voice.agent || "Agent"} agent={agent}>
      {voice.blocks.map((block, index) =>
        block.type === "tool" ? (
          <ToolCall
            key={block.id || index}
            call={block}
            result={block.ok === undefined ? undefined : { ok: block.ok, text: block.short ?? "" }}
            running={!voice.done}
          />
        ) : (
          <div className={css.growing} key={index}>
            {paragraphs(block.text).map((text, number) => (
              <Markdown key={number} text={text} inline={withRefs} />
            ))}
          </div>
        ),
      )}
      {voice.error && <p className="wrong">{voice.error}</p>}
    </Bubble>
  );
}

type Props = { row: Row & { type: "state" }; talk: Talk; takeBack: (outgoing: OutgoingMessage) => void };

export function Outcome({ row: { outgoing, live }, talk, takeBack }: Props) {
  if (outgoing.state === "sending") {
    const trying = talk.trying.has(outgoing.key);
    if (live?.over && !trying) return null; // the stored answer is being loaded
    const hasStarted = live?.replies.some((voice) => voice.blocks.length > 0 && !voice.done);
    const words = trying
      ? "The connection was lost. Trying again…"
      : live?.waiting
        ? `Waiting for ${live.waiting === 1 ? "another answer" : `${live.waiting} other answers`} in this conversation…`
        : live?.askedSeq
          ? "Thinking…"
          : "Sending…";
    return (
      <p className={trying ? `${css.state} ${css.trying}` : css.state} role="status">
        {hasStarted && !trying ? <span className="visually-hidden">Answering…</span> : <span>{words}</span>}
        <i aria-hidden="true" />
      </p>
    );
  }
  const isStored = outgoing.seq !== undefined;
  const about =
    isStored && outgoing.seq !== talk.last
      ? `“${outgoing.text.length > 60 ? `${outgoing.text.slice(0, 60)}…` : outgoing.text}”: `
      : "";
  const missing = isStored ? "The server has your message, but the answer is missing." : "Not sent.";
  const retryButton = (
    <button type="button" onClick={() => talk.retry(outgoing.key)}>
      {outgoing.state === "stopped" && outgoing.taken ? "Reconnect" : "Try again"}
    </button>
  );
  if (outgoing.state === "stopped") {
    return (
      <div className={`${css.state} card`} role="status">
        <p>
          {outgoing.taken
            ? "You stopped following the answer. The answer is still being written and saved; it will appear here."
            : "Stopped. Checking whether the server received your message…"}
        </p>
        {retryButton}
      </div>
    );
  }
  const back = () => {
    takeBack(outgoing);
    talk.forget(outgoing.key);
  };
  return (
    <div className={`${css.state} failure`} role="alert">
      <p>
        {about}
        <b>{missing}</b> {outgoing.why}
      </p>
      <div className="toolbar">
        {retryButton}
        {isStored ? (
          <button type="button" className="plain" onClick={() => talk.forget(outgoing.key)}>
            Dismiss
          </button>
        ) : (
          <button type="button" className="plain" onClick={back}>
            Edit message
          </button>
        )}
      </div>
    </div>
  );
}
