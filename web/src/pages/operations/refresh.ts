// Load again every few seconds while the page is visible.
import { useEffect, useRef } from "react";
import type { Loaded } from "../../api/load";

export function useRefresh({ reload, loading }: Pick<Loaded<unknown>, "reload" | "loading">, seconds: number): void {
  const busy = useRef(false);
  busy.current = loading;
  useEffect(() => {
    const refresh = () => document.hidden || busy.current || reload(); // one request at a time
    const timer = setInterval(refresh, seconds * 1000);
    document.addEventListener("visibilitychange", refresh);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", refresh);
    };
  }, [reload, seconds]);
}
