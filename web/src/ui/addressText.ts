// A text box whose value is in the address: it follows typing, and the address when that changes (Back, a link).
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { useDebounced } from "../api/debounced";

type Box = [text: string, type: (text: string) => void];

/** The text of a box that is submitted explicitly; it is reset when the address changes. */
export function useTextFromAddress(value: string): Box {
  const [text, type] = useState(value);
  const [lastValue, see] = useState(value);
  if (value !== lastValue) {
    see(value);
    type(value);
  }
  return [text, type];
}

/** The text of a box that is submitted after a pause: calls `commit` with the new and the previous text. */
export function useDebouncedText(
  value: string,
  commit: (text: string, previous: string) => void,
  milliseconds?: number,
): Box {
  const [text, type] = useState(value);
  const debounced = useDebounced(text, milliseconds);
  const committed = useRef(value); // the value that this box committed last
  const settle = useEffectEvent((next: string) => {
    if (next === value) return;
    const previous = committed.current;
    committed.current = next;
    commit(next, previous);
  });
  useEffect(() => settle(debounced), [debounced]);
  useEffect(() => {
    if (value === committed.current) return;
    committed.current = value;
    type(value);
  }, [value]);
  return [text, type];
}
