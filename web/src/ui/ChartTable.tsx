// The values of a chart as a table, for screen readers and for copying.
import { type ChartProps, formatValue } from "./chart";
import css from "./chart.module.css";

export function ChartTable(charted: ChartProps) {
  const { title, columns, series, marks } = charted;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className={`table ${css.chartTable}`} tabIndex={0} aria-label={`${title}, as a table`}>
      <table>
        <caption className="visually-hidden">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Time (UTC)</th>
            {series.map((item) => (
              <th key={item.name} scope="col" className="number">
                {item.name}
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
          {columns.map((column, nth) => (
            <tr key={column.name}>
              <th scope="row">{column.name}</th>
              {series.map((item) => (
                <td key={item.name} className="number">
                  {formatValue(charted, item.values[nth])}
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
