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
import { errorMessage } from "../../api/client";
import { to } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import css from "./chat.module.css";
import type { Draft } from "./draft";
import { ACCEPTED, MAX_IMAGES, readImages } from "./images";
import type { Talk } from "./talk";

type Props = {
  talk: Talk;
  draft: Draft;
  change: (update: (draft: Draft) => Draft) => void;
  send: (text: string, images: string[]) => void;
};

export function Composer({ talk, draft: { text, images }, change, send }: Props) {
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [reading, setReading] = useState(0); // the number of images being read, which belong to this message
  const [error, setError] = useState("");
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
    setError("");
  }, [talk, touch]);
  const add = async (newFiles: readonly File[]) => {
    setReading((count) => count + 1);
    try {
      const result = await readImages(newFiles);
      change((draft) => ({ ...draft, images: [...new Set([...draft.images, ...result.images])] }));
      setError(result.error);
    } catch (error) {
      setError(errorMessage(error));
    } finally {
      setReading((count) => count - 1);
    }
  };
  const tooMany = images.length > MAX_IMAGES ? `At most ${MAX_IMAGES} images can be attached to a message.` : "";
  const ready = (text.trim() || images.length) && !reading && !tooMany;
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (!ready) return;
    send(text.trim(), images);
    change(() => ({ text: "", images: [] }));
    setError("");
    field.current?.focus();
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing || touch) return;
    event.preventDefault();
    submit();
  };
  const pasted = (event: ClipboardEvent) => {
    const newFiles = [...event.clipboardData.files];
    if (!newFiles.length) return;
    event.preventDefault();
    add(newFiles);
  };
  const dropped = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    add([...event.dataTransfer.files]);
  };
  const running = talk.outbox.findLast((outgoing) => talk.listens(outgoing.key));
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
      {(tooMany || error) && (
        <p className="wrong" role="alert">
          {tooMany || error}
        </p>
      )}
      {images.length > 0 && (
        <ul className={css.previews} aria-label="Images to send">
          {images.map((image, index) => (
            <li key={index} className={css.preview}>
              <img src={image} alt={`Attachment ${index + 1} to send`} />
              <button
                type="button"
                className={`icon ${css.previewRemove}`}
                aria-label={`Remove image ${index + 1}`}
                onClick={() =>
                  change((draft) => ({ ...draft, images: draft.images.filter((other) => other !== image) }))
                }
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
