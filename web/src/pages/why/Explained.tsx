// An explained context: the bar, the items, and the items left out. Used for saved answers and for previews.
import { useMemo } from "react";
import type { Report } from "../../api/index";
import { count } from "../../ui/time";
import type { ItemTexts } from "./ItemRow";
import { ItemList, Items } from "./Items";
import { LayerBar } from "./LayerBar";
import { grouped, type Item, itemsOf } from "./report";
import css from "./why.module.css";

type Props = {
  report: Report;
  texts: ItemTexts;
  stale?: boolean;
  /** The changes since the previous report, if there was one. */
  added?: ReadonlySet<string>;
  fell?: readonly Item[];
};

export function Explained({ report, texts, stale, added, fell = [] }: Props) {
  const groups = useMemo(() => grouped(itemsOf(report.items)), [report]);
  const omitted = useMemo(() => grouped(itemsOf(report.left_out)), [report]);
  const changed = [
    fell.length ? `${count(fell.length)} removed` : "",
    added?.size ? `${count(added.size)} added` : "",
  ].filter(Boolean);
  return (
    <>
      <LayerBar groups={groups} tokens={report.tokens} budget={report.budget} stale={stale} />
      {texts.texts && (
        <p className={css.whyChanged} role="status">
          {changed.length ? `Since the last change: ${changed.join(", ")}.` : ""}
        </p>
      )}
      {fell.length > 0 && (
        <details className={`${css.whyFold} ${css.fell}`}>
          <summary>Just removed: {count(fell.length)}</summary>
          <ItemList items={fell} maxTokens={Math.max(...fell.map((item) => item.tokens), 1)} texts={texts} />
        </details>
      )}
      <section aria-labelledby="why-in">
        <h2 id="why-in">Contents, in prompt order</h2>
        <Items groups={groups} texts={texts} added={added} />
      </section>
      {report.left_out.length > 0 && (
        <details className={css.whyFold}>
          <summary>
            <h2>Left out: {count(report.left_out.length)}</h2>
          </summary>
          {omitted.map(({ layer, items }) => (
            <section key={layer.name} className={css.whyLayer}>
              <h3>
                <i aria-hidden="true" style={{ background: layer.colour }} />
                {layer.title}
              </h3>
              <ItemList items={items} maxTokens={Math.max(...items.map((item) => item.tokens), 1)} texts={texts} />
            </section>
          ))}
        </details>
      )}
    </>
  );
}
