// An explained context: the bar, the items, and the items left out. Used for saved answers and for previews.
import { useMemo } from "react";
import type { Report } from "../../api/index";
import { count } from "../../ui/time";
import type { Reading } from "./ItemRow";
import { ItemList, Items } from "./Items";
import { LayerBar } from "./LayerBar";
import { grouped, type Item, itemsOf } from "./report";
import css from "./why.module.css";

type Shown = {
  report: Report;
  reading: Reading;
  stale?: boolean;
  /** What changed since the report before, where there was one. */
  came?: ReadonlySet<string>;
  fell?: readonly Item[];
};

export function Explained({ report, reading, stale, came, fell = [] }: Shown) {
  const groups = useMemo(() => grouped(itemsOf(report.items)), [report]);
  const left = useMemo(() => grouped(itemsOf(report.left_out)), [report]);
  const changed = [
    fell.length ? `${count(fell.length)} fell out` : "",
    came?.size ? `${count(came.size)} came in` : "",
  ].filter(Boolean);
  return (
    <>
      <LayerBar groups={groups} tokens={report.tokens} budget={report.budget} stale={stale} />
      {reading.texts && (
        <p className={css.whyChanged} role="status">
          {changed.length ? `Since the last change: ${changed.join(", ")}.` : ""}
        </p>
      )}
      {fell.length > 0 && (
        <details className={`${css.whyFold} ${css.fell}`}>
          <summary>Just removed: {count(fell.length)}</summary>
          <ItemList items={fell} most={Math.max(...fell.map((item) => item.tokens), 1)} reading={reading} />
        </details>
      )}
      <section aria-labelledby="why-in">
        <h2 id="why-in">Contents, in prompt order</h2>
        <Items groups={groups} reading={reading} came={came} />
      </section>
      {report.left_out.length > 0 && (
        <details className={css.whyFold}>
          <summary>
            <h2>Left out: {count(report.left_out.length)}</h2>
          </summary>
          {left.map(({ layer, items }) => (
            <section key={layer.name} className={css.whyLayer}>
              <h3>
                <i aria-hidden="true" style={{ background: layer.colour }} />
                {layer.title}
              </h3>
              <ItemList items={items} most={Math.max(...items.map((item) => item.tokens), 1)} reading={reading} />
            </section>
          ))}
        </details>
      )}
    </>
  );
}
