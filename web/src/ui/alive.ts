// Track whether a component is still mounted, so that a slow action does not close or change its successor.
import { type RefObject, useEffect, useRef } from "react";

export function useAlive(): RefObject<boolean> {
  const alive = useRef(true);
  useEffect(() => {
    alive.current = true;
    return () => {
      alive.current = false;
    };
  }, []);
  return alive;
}
