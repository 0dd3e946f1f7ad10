// The scale of the budget slider: each step is the same factor, because 500 tokens matter at 1,000 and not at 100,000.

export const MIN_BUDGET = 500;
export const MAX_BUDGET = 128_000;
export const STEPS = 200;

/** The slider step of a budget. */
export function stepOf(budget: number): number {
  const fraction =
    Math.log(Math.min(Math.max(budget, MIN_BUDGET), MAX_BUDGET) / MIN_BUDGET) / Math.log(MAX_BUDGET / MIN_BUDGET);
  return Math.round(fraction * STEPS);
}

/** The budget at a step, rounded to a readable number. */
export function budgetAt(step: number): number {
  const exact = MIN_BUDGET * (MAX_BUDGET / MIN_BUDGET) ** (step / STEPS);
  const unit = 10 ** Math.max(Math.floor(Math.log10(exact)) - 2, 0);
  return Math.min(Math.max(Math.round(exact / unit) * unit, MIN_BUDGET), MAX_BUDGET);
}
