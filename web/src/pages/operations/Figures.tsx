// What a period comes to, and whether that is more or less than in the one before.
import { duration, money } from "../../ui/chart";
import { count } from "../../ui/time";
import css from "./operations.module.css";
import { change, type Sum } from "./totals";

type Shown = { now: Sum; then?: Sum; p95: number | null; unit: "hour" | "day" };

export function Figures({ now, then, p95, unit }: Shown) {
  const figures: [string, keyof Sum][] = [
    ["Calls", "calls"],
    ["Failed", "errors"],
    ["Tokens in", "tokens_in"],
    ["Tokens out", "tokens_out"],
    ["Cost", "cost"],
  ];
  return (
    <dl className={css.figures}>
      {figures.map(([label, name]) => (
        <div key={name}>
          <dt>{label}</dt>
          <dd>
            <b>{name === "cost" ? cost(now) : count(now[name] ?? 0)}</b>
            <span className="quiet">
              {then && change(name === "cost" && !now.calls ? 0 : now[name], then.calls ? then[name] : 0)}
            </span>
          </dd>
        </div>
      ))}
      <div>
        <dt>p95 latency</dt>
        <dd>
          <b>{p95 === null ? "–" : duration(p95)}</b>
          <span className="quiet">of the slowest {unit}</span>
        </dd>
      </div>
    </dl>
  );
}

/** What calls cost; unknown is not nothing. */
export function cost({ calls, cost: known }: Pick<Sum, "calls" | "cost">): string {
  if (known !== null) return money(known);
  return calls ? "unknown" : money(0);
}
