// The items of a context, or those left out, by layer in prompt order.
import { useState } from "react";
import { count } from "../../ui/time";
import { ItemRow, type Reading } from "./ItemRow";
import { type Group, type Item, keyOf } from "./report";
import css from "./why.module.css";

const ENDS = 15; // of a long layer these many first and last are shown until somebody wants all
type Shown = { groups: readonly Group[]; reading: Reading; came?: ReadonlySet<string> };

export function Items({ groups, reading, came }: Shown) {
  const most = Math.max(1, ...groups.flatMap((group) => group.items.map((item) => item.tokens)));
  return groups.map(({ layer, items, tokens }) => (
    <section key={layer.name} className={css.whyLayer} aria-labelledby={`layer-${layer.name}`}>
      <h3 id={`layer-${layer.name}`} tabIndex={-1}>
        <i aria-hidden="true" style={{ background: layer.colour }} />
        {layer.title} <span className="quiet">{layer.about}</span>
        <span className={css.whyAmount}>{count(tokens)}</span>
      </h3>
      <ItemList items={items} most={most} reading={reading} came={came} />
    </section>
  ));
}

type Listed = { items: readonly Item[]; most: number; reading: Reading; came?: ReadonlySet<string> };

export function ItemList({ items, most, reading, came }: Listed) {
  const [all, setAll] = useState(false);
  const row = (item: Item, place: number) => (
    <li key={`${keyOf(item)} ${place}`}>
      <ItemRow item={item} most={most} reading={reading} isNew={came?.has(keyOf(item)) ?? false} />
    </li>
  );
  const hidden = all ? 0 : items.length - 2 * ENDS;
  if (hidden < ENDS) return <ul className={css.whyItems}>{items.map(row)}</ul>;
  return (
    <ul className={css.whyItems}>
      {items.slice(0, ENDS).map(row)}
      <li>
        <button type="button" className={`plain ${css.whyBetween}`} onClick={() => setAll(true)}>
          Show {count(hidden)} more between
        </button>
      </li>
      {items.slice(-ENDS).map((item, place) => row(item, ENDS + hidden + place))}
    </ul>
  );
}
