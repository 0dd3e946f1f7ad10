// Scroll to a row of a long list and stay there while the rows before it are loaded and measured.
import { useEffect, useEffectEvent, useRef } from "react";

/** The offsets of the row and of the six rows before it, which are rendered together with it. */
export const OFFSETS_BEFORE = Array.from({ length: 7 }, (_, near) => near);
const FRAMES = 4;
const USER_INPUT_EVENTS = ["wheel", "touchstart", "pointerdown", "keydown"];

/**
 * Scroll to a row, again for a few frames until its neighbours are measured, and again whenever more rows before it are
 * loaded. Stop once the user scrolls, presses a key or uses the pointer.
 */
export function useScrollToRow(row: number, loadedBefore: number, scrollToRow: () => void) {
  const abandonedRow = useRef(0);
  useEffect(() => {
    const abandon = () => {
      abandonedRow.current = row;
    };
    for (const name of USER_INPUT_EVENTS) window.addEventListener(name, abandon, { capture: true, passive: true });
    return () => {
      for (const name of USER_INPUT_EVENTS) window.removeEventListener(name, abandon, { capture: true });
    };
  }, [row]);
  const scroll = useEffectEvent(scrollToRow);
  useEffect(() => {
    if (!row || abandonedRow.current === row) return;
    let frames = 0;
    let next = 0;
    const scrollAgain = () => {
      scroll();
      if (frames++ < FRAMES && abandonedRow.current !== row) next = requestAnimationFrame(scrollAgain);
    };
    scrollAgain();
    return () => cancelAnimationFrame(next);
  }, [row, loadedBefore]);
}
