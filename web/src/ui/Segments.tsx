// A segmented control: choose one of a few options.
import type { ReactNode } from "react";

type Shown<T extends string> = {
  label: string;
  choices: readonly (readonly [T, ReactNode])[];
  chosen: T | undefined;
  choose: (one: T) => void;
};

export function Segments<T extends string>({ label, choices, chosen, choose }: Shown<T>) {
  return (
    <fieldset className="segments">
      <legend className="visually-hidden">{label}</legend>
      {choices.map(([one, text]) => (
        <button key={one} type="button" className="segment" aria-pressed={one === chosen} onClick={() => choose(one)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}
