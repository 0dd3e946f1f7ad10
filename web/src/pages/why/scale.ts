// The scale of the budget slider: each step is the same factor, because 500 tokens matter at 1,000 and not at 100,000.

export const LEAST = 500;
export const MOST = 128_000;
export const STEPS = 200;

/** Where a budget is on the slider. */
export function stepOf(budget: number): number {
  const place = Math.log(Math.min(Math.max(budget, LEAST), MOST) / LEAST) / Math.log(MOST / LEAST);
  return Math.round(place * STEPS);
}

/** The budget at a step, rounded so that it reads well, and finer than a step. */
export function budgetAt(step: number): number {
  const exact = LEAST * (MOST / LEAST) ** (step / STEPS);
  const unit = 10 ** Math.max(Math.floor(Math.log10(exact)) - 2, 0);
  return Math.min(Math.max(Math.round(exact / unit) * unit, LEAST), MOST);
}
