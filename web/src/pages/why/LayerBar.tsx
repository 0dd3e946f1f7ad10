// A bar of tokens by layer against the budget, including the unused part. Each part also has a text label.
import { useState } from "react";
import { count } from "../../ui/time";
import { type Group, percent } from "./report";
import css from "./why.module.css";

type Props = { groups: readonly Group[]; tokens: number; budget: number; stale?: boolean };

export function LayerBar({ groups, tokens, budget, stale = false }: Props) {
  const [pointed, setPointed] = useState<string | null>(null);
  const free = Math.max(budget - tokens, 0);
  const scrollTo = (name: string) => {
    const element = document.getElementById(`layer-${name}`);
    element?.scrollIntoView({ block: "start", behavior: "smooth" });
    element?.focus({ preventScroll: true });
  };
  return (
    <figure className={css.whyBar} aria-busy={stale} aria-label="Tokens by layer">
      <figcaption>
        <b>{count(tokens)}</b> of {count(budget)} tokens <span className="quiet">· {percent(free, budget)} free</span>
      </figcaption>
      <div className={css.whyTrack}>
        {groups.map(({ layer, tokens: layerTokens }) => (
          <button
            key={layer.name}
            type="button"
            className={pointed && pointed !== layer.name ? css.faint : ""}
            style={{ flexGrow: layerTokens, background: layer.colour }}
            aria-label={`${layer.title}: ${count(layerTokens)} tokens, ${percent(layerTokens, budget)} of the budget`}
            title={`${layer.title}: ${count(layerTokens)} tokens, ${percent(layerTokens, budget)}`}
            onClick={() => scrollTo(layer.name)}
            onPointerEnter={() => setPointed(layer.name)}
            onPointerLeave={() => setPointed(null)}
            onFocus={() => setPointed(layer.name)}
            onBlur={() => setPointed(null)}
          />
        ))}
        <span className={css.whyFree} style={{ flexGrow: free }} title={`${count(free)} tokens are free`} />
      </div>
      <ul className={css.whyLegend} aria-label="Layers">
        {groups.map(({ layer, tokens: layerTokens }) => (
          <li key={layer.name} className={pointed === layer.name ? css.pointed : ""}>
            <button
              type="button"
              className="plain"
              onClick={() => scrollTo(layer.name)}
              onPointerEnter={() => setPointed(layer.name)}
              onPointerLeave={() => setPointed(null)}
            >
              <i aria-hidden="true" style={{ background: layer.colour }} />
              <span>{layer.title}</span>
              <span className={css.whyAmount}>
                {count(layerTokens)} <small>{percent(layerTokens, budget)}</small>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </figure>
  );
}
