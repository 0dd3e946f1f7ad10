// A list of names and values; missing values are left out.
import type { ReactNode } from "react";
import css from "./operations.module.css";

export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className={css.facts}>
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
