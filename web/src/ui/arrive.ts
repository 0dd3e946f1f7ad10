// Arriving at a place in a long list: what stands before it grows when it is read and measured, and moves it away again.
import { useEffect } from "react";

/** How far before a place the rows are that are in the document with it, and the place itself. */
export const BEFORE = Array.from({ length: 10 }, (_, near) => near);
const FRAMES = 4;

/** Go to a place, and again until what came last is measured; once more whenever something of `on` changes. */
export function useArrive(go: (() => void) | undefined, on: readonly unknown[]) {
  useEffect(() => {
    if (!go) return;
    let frames = 0;
    let next = 0;
    const step = () => {
      go();
      if (frames++ < FRAMES) next = requestAnimationFrame(step);
    };
    step();
    return () => cancelAnimationFrame(next);
  }, [!go, ...on]);
}
