// The values of a chart as a table, for screen readers and for copying.
import { type Charted, value } from "./chart";
import css from "./chart.module.css";

export function ChartTable(charted: Charted) {
  const { title, places, series, marks } = charted;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className={`table ${css.chartTable}`} tabIndex={0} aria-label={`${title}, as a table`}>
      <table>
        <caption className="visually-hidden">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Time (UTC)</th>
            {series.map((one) => (
              <th key={one.name} scope="col" className="number">
                {one.name}
              </th>
            ))}
            {marks && (
              <th scope="col" className="number">
                {marks.name}
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {places.map((place, nth) => (
            <tr key={place.name}>
              <th scope="row">{place.name}</th>
              {series.map((one) => (
                <td key={one.name} className="number">
                  {value(charted, one.values[nth])}
                </td>
              ))}
              {marks && <td className="number">{marks.values[nth] ?? 0}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
