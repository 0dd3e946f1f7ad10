// The items of a context, or those left out, by layer in prompt order.
import { useState } from "react";
import { count } from "../../ui/time";
import { ItemRow, type ItemTexts } from "./ItemRow";
import { type Group, type Item, keyOf } from "./report";
import css from "./why.module.css";

const ENDS = 15; // a long layer shows this many first and last items until it is expanded
type Props = { groups: readonly Group[]; texts: ItemTexts; added?: ReadonlySet<string> };

export function Items({ groups, texts, added }: Props) {
  const maxTokens = Math.max(1, ...groups.flatMap((group) => group.items.map((item) => item.tokens)));
  return groups.map(({ layer, items, tokens }) => (
    <section key={layer.name} className={css.whyLayer} aria-labelledby={`layer-${layer.name}`}>
      <h3 id={`layer-${layer.name}`} tabIndex={-1}>
        <i aria-hidden="true" style={{ background: layer.colour }} />
        {layer.title} <span className="quiet">{layer.about}</span>
        <span className={css.whyAmount}>{count(tokens)}</span>
      </h3>
      <ItemList items={items} maxTokens={maxTokens} texts={texts} added={added} />
    </section>
  ));
}

type Listed = { items: readonly Item[]; maxTokens: number; texts: ItemTexts; added?: ReadonlySet<string> };

export function ItemList({ items, maxTokens, texts, added }: Listed) {
  const [expanded, setExpanded] = useState(false);
  const row = (item: Item, index: number) => (
    <li key={`${keyOf(item)} ${index}`}>
      <ItemRow item={item} maxTokens={maxTokens} texts={texts} isNew={added?.has(keyOf(item)) ?? false} />
    </li>
  );
  const hidden = expanded ? 0 : items.length - 2 * ENDS;
  if (hidden < ENDS) return <ul className={css.whyItems}>{items.map(row)}</ul>;
  return (
    <ul className={css.whyItems}>
      {items.slice(0, ENDS).map(row)}
      <li>
        <button type="button" className={`plain ${css.whyBetween}`} onClick={() => setExpanded(true)}>
          Show {count(hidden)} more between
        </button>
      </li>
      {items.slice(-ENDS).map((item, index) => row(item, ENDS + hidden + index))}
    </ul>
  );
}
