// A chart of stacked bars or lines, with values on hover, by keyboard, and as a table.
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useRef, useState } from "react";
import { Line, Patterns, Stack, Swatch } from "./ChartMarks";
import { ChartTable } from "./ChartTable";
import { type Charted, every, highest, ticks, value } from "./chart";
import css from "./chart.module.css";

const HEIGHT = 190;
const EDGE = { top: 12, right: 8, bottom: 24, left: 52 };

export function Chart(props: Charted) {
  const { title, series, places, marks, shape, children } = props;
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
      {asTable ? <ChartTable {...props} /> : <Drawn {...props} />}
      {!asTable && (series.length > 1 || marks) && places.length > 0 && (
        <ul className={css.legend} aria-label={`What ${title} shows`}>
          {series.map((one, nth) => (
            <li key={one.name}>
              <Swatch nth={nth} shape={shape} /> {one.name}
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

/** The picture, over which one value after the other can be read: the arrow keys move along it as on a slider. */
function Drawn(props: Charted) {
  const { title, places, series, shape, format } = props;
  const [box, width] = useWidth();
  const [at, setAt] = useState<number | null>(null);
  const patterns = useId();
  const steps = ticks(highest(series, shape === "bars"), 4, props.whole);
  const room = Math.max(0, width - EDGE.left - EDGE.right);
  const slot = room / Math.max(1, places.length);
  const top = steps.at(-1) ?? 1;
  const x = (place: number) => EDGE.left + (place + 0.5) * slot;
  const y = (value: number) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const labelled = every(places.length, room, 64);
  const last = places.length - 1;
  const here = at === null ? null : Math.min(at, last);
  const move = (event: KeyboardEvent) => {
    const to = moved(event.key, here ?? last, last, here === null);
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
      aria-valuenow={here ?? last}
      aria-valuetext={text(props, here ?? last)}
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
        {here !== null && (
          <rect className={css.cursor} x={x(here) - slot / 2} y={EDGE.top} width={slot} height={y(0) - EDGE.top} />
        )}
        {places.map(
          (place, nth) =>
            labelled(nth) && (
              <text key={place.name} x={x(nth)} y={HEIGHT - 6} textAnchor="middle">
                {place.short}
              </text>
            ),
        )}
        {shape === "bars"
          ? places.map((place, nth) => (
              <Stack key={place.name} charted={props} place={nth} x={x(nth)} slot={slot} y={y} patterns={patterns} />
            ))
          : series.map((one, nth) => <Line key={one.name} series={one} nth={nth} x={x} y={y} />)}
      </svg>
      {here !== null && <Values charted={props} place={here} left={x(here)} width={width} />}
    </div>
  );
}

/** The values of all series at the cursor position. */
function Values({ charted, place, left, width }: { charted: Charted; place: number; left: number; width: number }) {
  const side = left > width / 2 ? { right: width - left + 12 } : { left: left + 12 };
  return (
    <div className={css.values} style={side}>
      <b>{charted.places[place]?.name}</b>
      {charted.series.map((one, nth) => (
        <span key={one.name}>
          <Swatch nth={nth} shape={charted.shape} /> {one.name} <b>{value(charted, one.values[place])}</b>
        </span>
      ))}
      {!!charted.marks?.values[place] && (
        <span>
          <span className={css.mark}>▾</span> {charted.marks.name} <b>{charted.marks.values[place]}</b>
        </span>
      )}
    </div>
  );
}

/** Everything at one place, in words. */
function text(charted: Charted, place: number): string {
  const said = charted.series.map((one) => `${one.name} ${value(charted, one.values[place])}`);
  const marked = charted.marks?.values[place];
  if (charted.marks && marked) said.push(`${charted.marks.name} ${marked}`);
  return `${charted.places[place]?.name ?? "nothing"}: ${said.join(", ")}`;
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

/** How wide something is, as it changes. */
function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([seen]) => setWidth(Math.floor(seen?.contentRect.width ?? 0)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}
