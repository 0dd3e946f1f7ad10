// Messages that are not stored yet, the answer while it is written, and failures.
import type { Agent } from "../../api/index";
import { withRefs } from "../../refs/RefText";
import { Markdown } from "../../ui/Markdown";
import css from "./chat.module.css";
import { paragraphs, type Voice } from "./live";
import { Bubble } from "./Message";
import type { Sent } from "./outbox";
import type { Row } from "./rows";
import { ToolCall } from "./ToolCall";
import type { Talk } from "./talk";

export function Mine({ sent }: { sent: Sent }) {
  return (
    <Bubble mine name="You">
      {sent.text && <Markdown text={sent.text} inline={withRefs} />}
      {sent.images.length > 0 && (
        <div className={css.pictures}>
          {sent.images.map((image, place) => (
            <img key={place} src={image} alt="Attached to this message" />
          ))}
        </div>
      )}
    </Bubble>
  );
}

export function Growing({ voice, agent }: { voice: Voice; agent: Agent | undefined }) {
  return (
    <Bubble mine={false} name={voice.agent || "Agent"} agent={agent}>
      {voice.blocks.map((block, place) =>
        block.type === "tool" ? (
          <ToolCall
            key={block.id || place}
            call={block}
            result={block.ok === undefined ? undefined : { ok: block.ok, text: block.short ?? "" }}
            running={!voice.done}
          />
        ) : (
          <div className={css.growing} key={place}>
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

type Shown = { row: Row & { type: "state" }; talk: Talk; takeBack: (sent: Sent) => void };

export function Outcome({ row: { sent, live }, talk, takeBack }: Shown) {
  if (sent.state === "sending") {
    const trying = talk.trying.has(sent.key);
    if (live?.over && !trying) return null; // it is being read back
    const begun = live?.voices.some((voice) => voice.blocks.length > 0 && !voice.done);
    const words = trying
      ? "The connection was lost. Trying again…"
      : live?.waiting
        ? `Waiting for ${live.waiting === 1 ? "another answer" : `${live.waiting} other answers`} in this conversation…`
        : live?.asked
          ? "Thinking…"
          : "Sending…";
    return (
      <p className={trying ? `${css.state} ${css.trying}` : css.state} role="status">
        {begun && !trying ? <span className="visually-hidden">Answering…</span> : <span>{words}</span>}
        <i aria-hidden="true" />
      </p>
    );
  }
  const kept = sent.seq !== undefined;
  const about =
    kept && sent.seq !== talk.last ? `“${sent.text.length > 60 ? `${sent.text.slice(0, 60)}…` : sent.text}”: ` : "";
  const missing = kept ? "The server has your message, but the answer is missing." : "Not sent.";
  const again = (
    <button type="button" onClick={() => talk.retry(sent.key)}>
      {sent.state === "stopped" && sent.taken ? "Reconnect" : "Try again"}
    </button>
  );
  if (sent.state === "stopped") {
    return (
      <div className={`${css.state} card`} role="status">
        <p>
          {sent.taken
            ? "You stopped following the answer. The answer is still being written and saved; it will appear here."
            : "Stopped. We will check whether the server received your message."}
        </p>
        {again}
      </div>
    );
  }
  const back = () => {
    takeBack(sent);
    talk.forget(sent.key);
  };
  return (
    <div className={`${css.state} failure`} role="alert">
      <p>
        {about}
        <b>{missing}</b> {sent.why}
      </p>
      <div className="toolbar">
        {again}
        {kept ? (
          <button type="button" className="plain" onClick={() => talk.forget(sent.key)}>
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
