// A debounced value: typing or dragging triggers one request, after the last change.
import { useEffect, useState } from "react";

export function useDebounced<T>(value: T, milliseconds = 300): T {
  const [debounced, setDebounced] = useState(value);
  useEffect(() => {
    if (Object.is(value, debounced)) return;
    const timer = setTimeout(() => setDebounced(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, debounced, milliseconds]);
  return debounced;
}
