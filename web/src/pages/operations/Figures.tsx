// The totals of a period, compared with the period before.
import { duration, formatKnown, money } from "../../ui/chart";
import { count } from "../../ui/time";
import css from "./operations.module.css";
import { change, type Sum } from "./totals";

type Props = { now: Sum; then?: Sum; p95: number | null; unit: "hour" | "day" };

export function Figures({ now, then, p95, unit }: Props) {
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
            <b>{name === "cost" ? cost(now) : now.calls ? formatKnown(now[name], count) : count(0)}</b>
            <span className="quiet">{then && change(now.calls ? now[name] : 0, then.calls ? then[name] : 0)}</span>
          </dd>
        </div>
      ))}
      <div>
        <dt>p95 latency</dt>
        <dd>
          <b>{formatKnown(p95, duration)}</b>
          <span className="quiet">of the slowest {unit}</span>
        </dd>
      </div>
    </dl>
  );
}

/** The cost of calls; an unknown cost is not zero. */
export function cost({ calls, cost: value }: Pick<Sum, "calls" | "cost">): string {
  if (value !== null) return money(value);
  return calls ? "unknown" : money(0);
}
