// Scroll to a row of a long list and stay there while the rows before it are loaded and measured.
import { useEffect, useEffectEvent, useRef } from "react";

/** How far before a place the rows are that are in the document with it, and the place itself. */
export const BEFORE = Array.from({ length: 7 }, (_, near) => near);
const FRAMES = 4;
const HANDS = ["wheel", "touchstart", "pointerdown", "keydown"];

/**
 * Go to a place, and again until what came last is measured; once more whenever there is more `known` of what stands before
 * it. Whoever takes the wheel, a key or the pointer meanwhile is not taken back.
 */
export function useArrive(place: number, known: number, go: () => void) {
  const left = useRef(0);
  useEffect(() => {
    const leave = () => {
      left.current = place;
    };
    for (const hand of HANDS) window.addEventListener(hand, leave, { capture: true, passive: true });
    return () => {
      for (const hand of HANDS) window.removeEventListener(hand, leave, { capture: true });
    };
  }, [place]);
  const scroll = useEffectEvent(go);
  useEffect(() => {
    if (!place || left.current === place) return;
    let frames = 0;
    let next = 0;
    const step = () => {
      scroll();
      if (frames++ < FRAMES && left.current !== place) next = requestAnimationFrame(step);
    };
    step();
    return () => cancelAnimationFrame(next);
  }, [place, known]);
}
