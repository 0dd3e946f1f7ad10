// The totals of a period by model or by route, with latency percentiles.
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { to } from "../../app/route";
import { duration, formatKnown } from "../../ui/chart";
import { Link } from "../../ui/Link";
import { Failure } from "../../ui/states";
import { count } from "../../ui/time";
import { cost } from "./Figures";

export function ByName({ by, since, until }: { by: "model" | "route"; since: string; until: string }) {
  const totals = useLoad(
    async (signal) => ({ by, lines: await get("/api/interactions/totals", { query: { by, since, until }, signal }) }),
    [by, since, until],
  );
  if (totals.error) return <Failure error={totals.error} retry={totals.reload} />;
  if (!totals.data?.lines.length) return null;
  const lines = totals.data.lines.toSorted((first, other) => other.calls - first.calls);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="table" tabIndex={0} aria-label={`Totals by ${totals.data.by}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{totals.data.by === "model" ? "Model" : "Route"}</th>
            {["Calls", "Failed", "Tokens in", "Tokens out", "Cost", "p50", "p95", "p99"].map((name) => (
              <th key={name} scope="col" className="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.name}>
              <th scope="row">
                <Link href={to(["operations", "calls"], { [totals.data?.by ?? by]: line.name })}>{line.name}</Link>
              </th>
              <td className="number">{count(line.calls)}</td>
              <td className="number">{count(line.errors)}</td>
              <td className="number">{formatKnown(line.tokens_in, count)}</td>
              <td className="number">{formatKnown(line.tokens_out, count)}</td>
              <td className="number">{cost(line)}</td>
              <td className="number">{formatKnown(line.p50, duration)}</td>
              <td className="number">{formatKnown(line.p95, duration)}</td>
              <td className="number">{formatKnown(line.p99, duration)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
