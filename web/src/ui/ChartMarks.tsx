// Distinguish chart series by colour and by a pattern, dash or point shape.
import { useId } from "react";
import { type ChartProps, lineSegments, type Series, stack } from "./chart";
import css from "./chart.module.css";

export const KINDS = 6;
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "4 2", "1 4"];

/** The fills of bars: plain, and five patterns. */
export function Patterns({ id, amount }: { id: string; amount: number }) {
  const shapes = ["", "M0 8L8 0", "M0 2H8M0 6H8", "M0 0L8 8", "M2 0V8M6 0V8", "M0 8L8 0M0 0L8 8"];
  return (
    <defs>
      {shapes.slice(0, amount).map((shape, nth) => (
        <pattern key={shape} id={`${id}-${nth}`} width="8" height="8" patternUnits="userSpaceOnUse">
          <rect width="8" height="8" className={css[`fill${nth}`]} />
          {shape && <path d={shape} className={css.hatch} />}
        </pattern>
      ))}
    </defs>
  );
}

/** The colour and pattern of a series, for the legend. */
export function Swatch({ nth, shape }: { nth: number; shape: ChartProps["shape"] }) {
  const kind = nth % KINDS;
  const id = useId();
  return (
    <svg className={css.swatch} width="22" height="12" aria-hidden="true">
      {shape === "lines" ? (
        <>
          <path d="M0 6H22" className={`${css.line} ${css[`stroke${kind}`]}`} strokeDasharray={DASHES[kind]} />
          <Point nth={kind} x={11} y={6} />
        </>
      ) : (
        <>
          <Patterns id={id} amount={kind + 1} />
          <rect width="22" height="12" rx="2" fill={`url(#${id}-${kind})`} />
        </>
      )}
    </svg>
  );
}

type StackProps = {
  charted: ChartProps;
  index: number;
  x: number;
  slot: number;
  y: (value: number) => number;
  patterns: string;
};

/** The stacked bars of one column, with its mark and a question mark for an unknown value. */
export function Stack({ charted, index, x, slot, y, patterns }: StackProps) {
  const width = Math.max(2, Math.min(40, slot * 0.72));
  const parts = stack(charted.series, index);
  const high = Math.max(0, ...parts.map((part) => part?.[1] ?? 0));
  const unknown = charted.series.some((item) => item.values[index] === null);
  return (
    <>
      {parts.map((part, nth) => {
        const name = charted.series[nth]?.name;
        if (!part) return null;
        const [from, upTo] = part;
        const height = Math.max(1.5, y(from) - y(upTo));
        const fill = `url(#${patterns}-${nth % KINDS})`;
        return <rect key={name} x={x - width / 2} y={y(from) - height} width={width} height={height} fill={fill} />;
      })}
      {unknown && (
        <text x={x} y={y(high) - 4} textAnchor="middle">
          ?
        </text>
      )}
      {!!charted.marks?.values[index] && (
        <text className={css.mark} x={x} y={y(high) - 2} textAnchor="middle">
          ▾
        </text>
      )}
    </>
  );
}

/** A line, interrupted where values are missing. */
export function Line({
  series,
  nth,
  x,
  y,
}: {
  series: Series;
  nth: number;
  x: (index: number) => number;
  y: (value: number) => number;
}) {
  const kind = nth % KINDS;
  const points = lineSegments(series.values);
  const isCrowded = series.values.length > 45;
  return (
    <>
      {points.map((piece) => (
        <path
          key={piece[0]?.[0]}
          className={`${css.line} ${css[`stroke${kind}`]}`}
          strokeDasharray={DASHES[kind]}
          d={piece.map(([index, value], first) => `${first ? "L" : "M"}${x(index)} ${y(value)}`).join("")}
        />
      ))}
      {points
        .filter((piece) => !isCrowded || piece.length === 1)
        .flat()
        .map(([index, value]) => (
          <Point key={index} nth={kind} x={x(index)} y={y(value)} />
        ))}
    </>
  );
}

/** A point of a line: a circle, a square or a diamond, filled or hollow. */
function Point({ nth, x, y }: { nth: number; x: number; y: number }) {
  const name = nth < 3 ? `${css[`fill${nth}`]} ${css[`stroke${nth}`]}` : `${css.hollow} ${css[`stroke${nth}`]}`;
  if (nth % 3 === 0) return <circle className={name} cx={x} cy={y} r="3" />;
  const turn = nth % 3 === 2 ? `rotate(45 ${x} ${y})` : undefined;
  return <rect className={name} x={x - 2.7} y={y - 2.7} width="5.4" height="5.4" transform={turn} />;
}
