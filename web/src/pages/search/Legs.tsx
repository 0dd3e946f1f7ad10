// The retrievers that ran, their state, and the number of hits of each.
import type { SearchResults } from "../../api/index";
import { leg } from "../../refs/signals";
import { count } from "../../ui/time";
import css from "./search.module.css";

export function Legs({ found }: { found: SearchResults }) {
  const beside = found.hits.filter((hit) => hit.legs.length === 0).length;
  return (
    <p className={css.searchLegs} role="status">
      <b>
        {count(found.hits.length)} {found.hits.length === 1 ? "hit" : "hits"}
      </b>
      {Object.entries(found.legs).map(([name, how]) => {
        if (!how.startsWith("ran")) {
          return (
            <span key={name} className="chip warn">
              {leg(name)} did not run: {how.replace(/^failed: /, "")}
            </span>
          );
        }
        const by = how.slice("ran: ".length);
        return (
          <span key={name} className="quiet">
            {count(found.hits.filter((hit) => hit.legs.includes(name)).length)} by {leg(name)}
            {by && ` (${by})`}
          </span>
        );
      })}
      {beside > 0 && <span className="quiet">{count(beside)} from their context</span>}
    </p>
  );
}
