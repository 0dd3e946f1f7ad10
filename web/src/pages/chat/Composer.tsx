// Where one writes: a field that grows, images, and a draft that no reload loses.
import {
  type ClipboardEvent,
  type DragEvent,
  type FormEvent,
  type KeyboardEvent,
  useEffect,
  useRef,
  useState,
} from "react";
import { to } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { ACCEPTED, taken } from "./images";
import { draft, keepDraft } from "./outbox";
import type { Talk } from "./talk";

type Shown = {
  talk: Talk;
  text: string;
  setText: (text: string) => void;
  send: (text: string, images: string[]) => void;
};

/** The draft of a conversation, kept at every change. */
export function useDraft(talk: Talk): [string, (text: string) => void] {
  const [text, setText] = useState(() => draft(talk.user, talk.id));
  useEffect(() => setText(draft(talk.user, talk.id)), [talk]);
  return [
    text,
    (next) => {
      setText(next);
      keepDraft(talk.user, talk.id, next);
    },
  ];
}

export function Composer({ talk, text, setText, send }: Shown) {
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [images, setImages] = useState<string[]>([]);
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
    setImages([]);
    setWrong("");
  }, [talk]);
  const add = async (given: readonly File[]) => {
    const found = await taken(given, images);
    setImages(found.images);
    setWrong(found.wrong);
  };
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (!text.trim() && !images.length) return;
    send(text.trim(), images);
    setText("");
    setImages([]);
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
      className={over ? "composer over" : "composer"}
      onSubmit={submit}
      onDrop={dropped}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
    >
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
      {images.length > 0 && (
        <ul className="previews" aria-label="Images to send">
          {images.map((image, place) => (
            <li key={image.slice(-80)} className="preview">
              <img src={image} alt={`To send, number ${place + 1}`} />
              <button
                type="button"
                className="icon preview-remove"
                aria-label={`Remove image ${place + 1}`}
                onClick={() => setImages(images.filter((one) => one !== image))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div className="write">
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
          onChange={(event) => setText(event.target.value)}
          onKeyDown={typed}
          onPaste={pasted}
        />
        {running ? (
          <button type="button" className="icon" aria-label="Stop listening" onClick={() => talk.stop(running.key)}>
            <Icon name="stop" />
          </button>
        ) : null}
        <button type="submit" className="primary icon" aria-label="Send" disabled={!text.trim() && !images.length}>
          <Icon name="send" />
        </button>
      </div>
      <p className="quiet hint" id="composer-hint">
        <span>{touch ? "The arrow sends." : "Enter sends, Shift+Enter breaks the line."}</span>
        <Link href={to(["why"], { session: talk.id, message: text.slice(0, 2000) })}>Preview the context</Link>
      </p>
    </form>
  );
}
