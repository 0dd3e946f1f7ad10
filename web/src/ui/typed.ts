// A text box whose value is in the address: it follows typing, and the address when that changes (Back, a link).
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { useSettled } from "../api/settled";

type Box = [text: string, type: (text: string) => void];

/** For what is asked when somebody says so: the text, until the address has another one. */
export function useHeld(held: string): Box {
  const [text, type] = useState(held);
  const [seen, see] = useState(held);
  if (held !== seen) {
    see(held);
    type(held);
  }
  return [text, type];
}

/** For what is asked when the hand rests: `put` is told the text then, and what it had put before. */
export function useTyped(held: string, put: (text: string, before: string) => void, milliseconds?: number): Box {
  const [text, type] = useState(held);
  const settled = useSettled(text, milliseconds);
  const own = useRef(held); // what this box itself has put
  const settle = useEffectEvent((next: string) => {
    if (next === held) return;
    const before = own.current;
    own.current = next;
    put(next, before);
  });
  useEffect(() => settle(settled), [settled]);
  useEffect(() => {
    if (held === own.current) return;
    own.current = held;
    type(held);
  }, [held]);
  return [text, type];
}
