// The message box: a growing text field, images, and a draft that survives a reload.
import {
  type ClipboardEvent,
  type DragEvent,
  type FormEvent,
  type KeyboardEvent,
  useEffect,
  useRef,
  useState,
} from "react";
import { told } from "../../api/client";
import { to } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import css from "./chat.module.css";
import type { Draft } from "./draft";
import { ACCEPTED, MOST, taken } from "./images";
import type { Talk } from "./talk";

type Shown = {
  talk: Talk;
  draft: Draft;
  change: (how: (draft: Draft) => Draft) => void;
  send: (text: string, images: string[]) => void;
};

export function Composer({ talk, draft: { text, images }, change, send }: Shown) {
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [reading, setReading] = useState(0); // images that are read at the moment: they go with this message
  const [wrong, setWrong] = useState("");
  const [over, setOver] = useState(false);
  const touch = matchMedia("(pointer: coarse)").matches;
  useEffect(() => {
    const node = field.current;
    if (!node) return;
    node.style.height = "auto";
    node.style.height = `${node.scrollHeight + 2}px`;
  }, [text]);
  useEffect(() => {
    if (!touch) field.current?.focus();
    setWrong("");
  }, [talk, touch]);
  const add = async (given: readonly File[]) => {
    setReading((count) => count + 1);
    try {
      const found = await taken(given);
      change((draft) => ({ ...draft, images: [...new Set([...draft.images, ...found.images])] }));
      setWrong(found.wrong);
    } catch (error) {
      setWrong(told(error));
    } finally {
      setReading((count) => count - 1);
    }
  };
  const many = images.length > MOST ? `At most ${MOST} images go with one message.` : "";
  const ready = (text.trim() || images.length) && !reading && !many;
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (!ready) return;
    send(text.trim(), images);
    change(() => ({ text: "", images: [] }));
    setWrong("");
    field.current?.focus();
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing || touch) return;
    event.preventDefault();
    submit();
  };
  const pasted = (event: ClipboardEvent) => {
    const given = [...event.clipboardData.files];
    if (!given.length) return;
    event.preventDefault();
    add(given);
  };
  const dropped = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    add([...event.dataTransfer.files]);
  };
  const running = talk.sent.findLast((sent) => talk.listens(sent.key));
  return (
    <form
      className={over ? `${css.composer} ${css.over}` : css.composer}
      onSubmit={submit}
      onDrop={dropped}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
    >
      {(many || wrong) && (
        <p className="wrong" role="alert">
          {many || wrong}
        </p>
      )}
      {images.length > 0 && (
        <ul className={css.previews} aria-label="Images to send">
          {images.map((image, place) => (
            <li key={place} className={css.preview}>
              <img src={image} alt={`Attachment ${place + 1} to send`} />
              <button
                type="button"
                className={`icon ${css.previewRemove}`}
                aria-label={`Remove image ${place + 1}`}
                onClick={() => change((draft) => ({ ...draft, images: draft.images.filter((one) => one !== image) }))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div className={css.write}>
        <input
          ref={files}
          type="file"
          accept={ACCEPTED}
          multiple
          hidden
          onChange={(event) => {
            add([...(event.target.files ?? [])]);
            event.target.value = "";
          }}
        />
        <button type="button" className="icon" aria-label="Attach images" onClick={() => files.current?.click()}>
          <Icon name="attach" />
        </button>
        <textarea
          ref={field}
          rows={1}
          value={text}
          aria-label="Message"
          aria-describedby="composer-hint"
          placeholder="Write a message"
          onChange={(event) => change((draft) => ({ ...draft, text: event.target.value }))}
          onKeyDown={typed}
          onPaste={pasted}
        />
        {running ? (
          <button
            type="button"
            className="icon"
            aria-label="Stop following the answer"
            onClick={() => talk.stop(running.key)}
          >
            <Icon name="stop" />
          </button>
        ) : null}
        <button type="submit" className="primary icon" aria-label="Send" disabled={!ready}>
          <Icon name="send" />
        </button>
      </div>
      <p className={`quiet ${css.hint}`} id="composer-hint">
        <span>{touch ? "Tap the arrow to send." : "Enter sends, Shift+Enter inserts a line break."}</span>
        <Link href={to(["why"], { session: talk.id })}>Preview the context</Link>
      </p>
    </form>
  );
}
