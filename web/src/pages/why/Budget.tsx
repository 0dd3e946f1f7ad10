// The token budget of a context: a slider and a number field.
import { useEffect, useId, useState } from "react";
import { count } from "../../ui/time";
import { budgetAt, MAX_BUDGET, MIN_BUDGET, STEPS, stepOf } from "./scale";
import css from "./why.module.css";

export function Budget({ value, set }: { value: number; set: (budget: number) => void }) {
  const id = useId();
  const [typed, setTyped] = useState(String(value));
  useEffect(() => setTyped(String(value)), [value]);
  const type = (text: string) => {
    setTyped(text);
    const budget = Number(text);
    if (Number.isInteger(budget) && budget > 0 && budget <= 10_000_000) set(budget);
  };
  return (
    <div className="field">
      <label htmlFor={id}>Budget in tokens</label>
      <div className={css.whyBudget}>
        <input
          type="range"
          aria-label="Budget"
          aria-valuetext={`${count(value)} tokens`}
          min={0}
          max={STEPS}
          value={stepOf(value)}
          onChange={(event) => set(budgetAt(Number(event.target.value)))}
        />
        <input
          id={id}
          inputMode="numeric"
          value={typed}
          onChange={(event) => type(event.target.value)}
          onBlur={() => setTyped(String(value))}
        />
      </div>
      <p className="quiet">
        The slider goes from {count(MIN_BUDGET)} to {count(MAX_BUDGET)}; type any other number.
      </p>
    </div>
  );
}
