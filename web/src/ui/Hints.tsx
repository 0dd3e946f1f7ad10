// A row of short labels; each shows an explanation on hover or keyboard focus.
import { useId } from "react";

export type Hinted = { text: string; hint: string; strong?: boolean };

export function Hints({ label, items }: { label: string; items: readonly Hinted[] }) {
  const id = useId();
  return (
    <ul className="hints" aria-label={label}>
      {items.map((item, index) => (
        <li key={item.text}>
          <button type="button" className={item.strong ? "chip accent" : "chip"} aria-describedby={`${id}-${index}`}>
            {item.text}
          </button>
          <span role="tooltip" id={`${id}-${index}`}>
            {item.hint}
          </span>
        </li>
      ))}
    </ul>
  );
}
