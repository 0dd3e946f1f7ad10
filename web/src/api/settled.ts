// A value that has stopped changing: what is typed or dragged is asked for once, when the hand rests.
import { useEffect, useState } from "react";

export function useSettled<T>(value: T, milliseconds = 300): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (Object.is(value, settled)) return;
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, settled, milliseconds]);
  return settled;
}
