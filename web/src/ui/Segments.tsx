// A segmented control: choose one of a few options.
import type { ReactNode } from "react";

type Props<T extends string> = {
  label: string;
  choices: readonly (readonly [T, ReactNode])[];
  chosen: T | undefined;
  choose: (choice: T) => void;
};

export function Segments<T extends string>({ label, choices, chosen, choose }: Props<T>) {
  return (
    <fieldset className="segments">
      <legend className="visually-hidden">{label}</legend>
      {choices.map(([choice, text]) => (
        <button
          key={choice}
          type="button"
          className="segment"
          aria-pressed={choice === chosen}
          onClick={() => choose(choice)}
        >
          {text}
        </button>
      ))}
    </fieldset>
  );
}
