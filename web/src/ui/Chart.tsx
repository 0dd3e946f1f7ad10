// A chart of stacked bars or lines, with values on hover, by keyboard, and as a table.
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useRef, useState } from "react";
import { Line, Patterns, Stack, Swatch } from "./ChartMarks";
import { ChartTable } from "./ChartTable";
import { type ChartProps, formatValue, highest, labelFilter, ticks } from "./chart";
import css from "./chart.module.css";

const HEIGHT = 190;
const EDGE = { top: 12, right: 8, bottom: 24, left: 52 };

export function Chart(props: ChartProps) {
  const { title, series, columns, marks, shape, children } = props;
  const [asTable, setAsTable] = useState(false);
  const id = useId();
  return (
    <section className={`${css.chart} card`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {children}
        <button type="button" className="plain" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          As a table
        </button>
      </header>
      {asTable ? <ChartTable {...props} /> : <Plot {...props} />}
      {!asTable && (series.length > 1 || marks) && columns.length > 0 && (
        <ul className={css.legend} aria-label={`What ${title} shows`}>
          {series.map((item, nth) => (
            <li key={item.name}>
              <Swatch nth={nth} shape={shape} /> {item.name}
            </li>
          ))}
          {marks && (
            <li>
              <span className={css.mark} aria-hidden="true">
                ▾
              </span>
              {marks.name}
            </li>
          )}
        </ul>
      )}
    </section>
  );
}

/** The plot. Arrow keys move a cursor along it, as on a slider. */
function Plot(props: ChartProps) {
  const { title, columns, series, shape, format } = props;
  const [box, width] = useWidth();
  const [at, setAt] = useState<number | null>(null);
  const patterns = useId();
  const steps = ticks(highest(series, shape === "bars"), 4, props.integers);
  const room = Math.max(0, width - EDGE.left - EDGE.right);
  const slot = room / Math.max(1, columns.length);
  const top = steps.at(-1) ?? 1;
  const x = (index: number) => EDGE.left + (index + 0.5) * slot;
  const y = (value: number) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const labelled = labelFilter(columns.length, room, 64);
  const last = columns.length - 1;
  const cursor = at === null ? null : Math.min(at, last);
  const move = (event: KeyboardEvent) => {
    const to = moved(event.key, cursor ?? last, last, cursor === null);
    if (to === undefined) return;
    event.preventDefault();
    setAt(to);
  };
  const point = (event: PointerEvent) => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left - EDGE.left;
    setAt(Math.max(0, Math.min(last, Math.floor(left / slot))));
  };
  return (
    <div
      ref={box}
      className={css.drawn}
      role="slider"
      tabIndex={0}
      aria-label={title}
      aria-orientation="horizontal"
      aria-valuemin={0}
      aria-valuemax={last}
      aria-valuenow={cursor ?? last}
      aria-valuetext={text(props, cursor ?? last)}
      onKeyDown={move}
      onBlur={() => setAt(null)}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={(event) => event.pointerType === "mouse" && setAt(null)}
    >
      <svg width={width} height={HEIGHT} aria-hidden="true">
        <Patterns id={patterns} amount={series.length} />
        {steps.map((step) => (
          <g key={step} className={css.step}>
            <line x1={EDGE.left} x2={width - EDGE.right} y1={y(step)} y2={y(step)} />
            <text x={EDGE.left - 8} y={y(step)} dy="0.32em" textAnchor="end">
              {format(step)}
            </text>
          </g>
        ))}
        {cursor !== null && (
          <rect className={css.cursor} x={x(cursor) - slot / 2} y={EDGE.top} width={slot} height={y(0) - EDGE.top} />
        )}
        {columns.map(
          (column, nth) =>
            labelled(nth) && (
              <text key={column.name} x={x(nth)} y={HEIGHT - 6} textAnchor="middle">
                {column.short}
              </text>
            ),
        )}
        {shape === "bars"
          ? columns.map((column, nth) => (
              <Stack key={column.name} charted={props} index={nth} x={x(nth)} slot={slot} y={y} patterns={patterns} />
            ))
          : series.map((item, nth) => <Line key={item.name} series={item} nth={nth} x={x} y={y} />)}
      </svg>
      {cursor !== null && <Values charted={props} index={cursor} left={x(cursor)} width={width} />}
    </div>
  );
}

/** The values of all series at the cursor position. */
function Values({ charted, index, left, width }: { charted: ChartProps; index: number; left: number; width: number }) {
  const side = left > width / 2 ? { right: width - left + 12 } : { left: left + 12 };
  return (
    <div className={css.values} style={side}>
      <b>{charted.columns[index]?.name}</b>
      {charted.series.map((item, nth) => (
        <span key={item.name}>
          <Swatch nth={nth} shape={charted.shape} /> {item.name} <b>{formatValue(charted, item.values[index])}</b>
        </span>
      ))}
      {!!charted.marks?.values[index] && (
        <span>
          <span className={css.mark}>▾</span> {charted.marks.name} <b>{charted.marks.values[index]}</b>
        </span>
      )}
    </div>
  );
}

/** All values of one column as text, for screen readers. */
function text(charted: ChartProps, index: number): string {
  const parts = charted.series.map((item) => `${item.name} ${formatValue(charted, item.values[index])}`);
  const marked = charted.marks?.values[index];
  if (charted.marks && marked) parts.push(`${charted.marks.name} ${marked}`);
  return `${charted.columns[index]?.name ?? "nothing"}: ${parts.join(", ")}`;
}

/** The position that a key moves to; undefined for other keys. */
function moved(key: string, at: number, last: number, fresh: boolean): number | null | undefined {
  if (key === "Escape") return null;
  if (key === "Home") return 0;
  if (key === "End") return last;
  const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 7, PageDown: -7 }[key];
  if (by === undefined) return undefined;
  return fresh ? at : Math.max(0, Math.min(last, at + by));
}

/** The current width of an element. */
function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}
