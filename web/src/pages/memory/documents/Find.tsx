// Search results in documents: passages, best first, each with a link to its position.
import { get } from "../../../api/client";
import { useLoad } from "../../../api/load";
import { useApp } from "../../../app/context";
import { Link } from "../../../ui/Link";
import { Empty, Failure, Loading } from "../../../ui/states";
import css from "../memory.module.css";
import { usePageState } from "../pageState";

export function Find({ query }: { query: string }) {
  const { user } = useApp();
  const { href } = usePageState();
  const results = useLoad(
    (signal) => get("/api/documents/search", { query: { user, query, limit: 20 }, signal }),
    [user, query],
  );
  if (results.error) return <Failure error={results.error} retry={results.reload} />;
  if (!results.data || results.loading) return <Loading />;
  if (!results.data.data.length) {
    return (
      <Empty title="Nothing found">
        <p>Try other words, or fewer words.</p>
      </Empty>
    );
  }
  return (
    <ol className={`${css.hits} ${css.bare}`} aria-label="Passages">
      {results.data.data.map((hit) => (
        <li key={`${hit.id} ${hit.seq}`} className="card">
          <h3>
            <Link href={href({ doc: hit.id, seq: String(hit.seq) })}>{hit.title || `Passage ${hit.seq}`}</Link>
          </h3>
          <p className={css.quoted}>{hit.text}</p>
          <p className="quiet">
            Passage {hit.seq} · score {hit.score.toFixed(2)} · found by {hit.legs.join(" and ")}
          </p>
        </li>
      ))}
    </ol>
  );
}
