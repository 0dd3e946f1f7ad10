// The retrievers that ran, their state, and the number of hits of each.
import type { SearchResults } from "../../api/index";
import { leg } from "../../refs/signals";
import { count, plural } from "../../ui/time";
import css from "./search.module.css";

export function Legs({ results }: { results: SearchResults }) {
  const neighbours = results.data.filter((hit) => hit.legs.length === 0).length;
  return (
    <p className={css.searchLegs} role="status">
      <b>
        {results.facts.length > 0 && `${plural(results.facts.length, "fact")} and `}
        {plural(results.data.length, "hit")}
      </b>
      {Object.entries(results.legs).map(([name, status]) => {
        if (!status.startsWith("ran")) {
          return (
            <span key={name} className="chip warn">
              {leg(name)} did not run: {status.replace(/^failed: /, "")}
            </span>
          );
        }
        const by = status.slice("ran: ".length);
        return (
          <span key={name} className="quiet">
            {count(results.data.filter((hit) => hit.legs.includes(name)).length)} by {leg(name)}
            {by && ` (${by})`}
          </span>
        );
      })}
      {neighbours > 0 && <span className="quiet">{count(neighbours)} next to a match</span>}
    </p>
  );
}
