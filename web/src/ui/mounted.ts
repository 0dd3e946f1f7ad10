// Track whether a component is still mounted, so that a slow action does not close or change its successor.
import { type RefObject, useEffect, useRef } from "react";

export function useMounted(): RefObject<boolean> {
  const mounted = useRef(true);
  useEffect(() => {
    mounted.current = true;
    return () => {
      mounted.current = false;
    };
  }, []);
  return mounted;
}
