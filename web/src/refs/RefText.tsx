// Text in which each reference placeholder is a chip that opens it.
import { Fragment, lazy, Suspense, useState } from "react";
import { createPortal } from "react-dom";
import { Icon } from "../ui/Icon";
import { pieces } from "./placeholder";
import css from "./refs.module.css";

const RefViewer = lazy(() => import("./RefViewer"));

/** Plain text with its references as chips; for Markdown: `<Markdown text=… inline={withRefs} />`. */
export function RefText({ text }: { text: string }) {
  return (
    <>
      {pieces(text).map((piece, index) => (
        <Fragment key={index}>
          {typeof piece === "string" ? piece : <RefChip refKey={piece.key} description={piece.description} />}
        </Fragment>
      ))}
    </>
  );
}

/** The `inline` prop of `Markdown`: one constant function, so that it causes no rendering. */
export const withRefs = (text: string) => (text.includes("[MemoryRef: ") ? <RefText text={text} /> : text);

/** A chip for one reference; it shows the description, else the key. */
export function RefChip({ refKey, description }: { refKey: string; description?: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className={`chip ${css.refChip}`} title={`Open ${refKey}`} onClick={() => setOpen(true)}>
        <Icon name="ref" /> <span>{description || refKey}</span>
      </button>
      {open &&
        createPortal(
          // A click in the dialog must not count as a click on the element around the chip.
          // biome-ignore lint/a11y/noStaticElementInteractions: it only stops what bubbles
          <div onClick={(event) => event.stopPropagation()} onKeyDown={(event) => event.stopPropagation()}>
            <Suspense>
              <RefViewer refKey={refKey} close={() => setOpen(false)} />
            </Suspense>
          </div>,
          document.body,
        )}
    </>
  );
}
