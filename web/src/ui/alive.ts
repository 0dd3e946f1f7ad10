// Whether what began something is still shown: what takes long must not close or change what has taken its place.
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
