// The content of a reference, by pages or by a chosen part.
import { type FormEvent, useState } from "react";
import { get } from "../api/client";
import type { Ref, View } from "../api/index";
import { useLoad } from "../api/load";
import { useWho } from "../app/who";
import { Failure, Loading } from "../ui/states";
import { count } from "../ui/time";
import { FIRST, following, type Part, partOf, type Way } from "./parts";
import css from "./refs.module.css";

const WAYS: { way: Way; label: string; ask: string; hint: string; start: string }[] = [
  { way: "page", label: "Pages", ask: "Page", hint: "1", start: "1" },
  { way: "grep", label: "Search inside", ask: "Search inside", hint: "words to look for", start: "" },
  { way: "lines", label: "Lines", ask: "Lines", hint: "120-160", start: "" },
  { way: "head", label: "Beginning", ask: "First lines", hint: "20", start: "20" },
  { way: "tail", label: "End", ask: "Last lines", hint: "20", start: "20" },
  { way: "path", label: "JSON path", ask: "JSON path", hint: "$.items[0].name", start: "$" },
];
const WRONG = "This asks for nothing yet: give a number, a range such as 120-160, or words.";

export function RefContent({ of }: { of: Ref }) {
  const { user } = useWho();
  const [part, setPart] = useState<Part>(FIRST);
  const [plain, setPlain] = useState(false);
  const view = useLoad(
    (signal) => get("/api/refs/{key}", { path: { key: of.key }, query: { user, ...part }, signal }),
    [of.key, user, JSON.stringify(part)],
  );
  return (
    <section aria-label="Content" className={css.refContent}>
      <Ask json={of.media === "json"} ask={setPart} busy={view.loading} />
      <div className={css.refSeen} role="status">
        <span>{view.data?.what ?? "…"}</span>
        {view.data?.more && part.page === undefined && <span className="quiet">{view.data.more}</span>}
        <label className="check">
          <input type="checkbox" checked={!plain} onChange={(event) => setPlain(!event.target.checked)} /> Monospace
        </label>
      </div>
      {view.data && !view.error && <Pager view={view.data} go={setPart} />}
      {view.error !== undefined && view.error !== null && <Failure error={view.error} retry={view.reload} />}
      {view.data ? (
        <Text view={view.data} plain={plain} stale={view.loading} />
      ) : (
        !view.error && <Loading what="Reading" />
      )}
    </section>
  );
}

function Text({ view, plain, stale }: { view: View; plain: boolean; stale: boolean }) {
  if (!view.text) return <p className="quiet">Nothing here.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className={css.refText} aria-label="Text" tabIndex={0} aria-busy={stale}>
      <pre className={plain ? "plain" : ""}>{view.text}</pre>
    </section>
  );
}

/** Which part to show. */
function Ask({ json, ask, busy }: { json: boolean; ask: (part: Part) => void; busy: boolean }) {
  const [way, setWay] = useState<Way>("page");
  const [typed, setTyped] = useState("1");
  const [regular, setRegular] = useState(false);
  const [wrong, setWrong] = useState(false);
  const here = WAYS.find((one) => one.way === way) ?? WAYS[0];
  const choose = (next: Way) => {
    const start = WAYS.find((one) => one.way === next)?.start ?? "";
    setWay(next);
    setTyped(start);
    setWrong(false);
    const part = partOf(next, start, false);
    if (part) ask(part);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const part = partOf(way, typed, regular);
    setWrong(!part);
    if (part) ask(part);
  };
  return (
    <form className={css.refAsk} onSubmit={submit}>
      <select aria-label="Show" value={way} onChange={(event) => choose(event.target.value as Way)}>
        {WAYS.filter((one) => json || one.way !== "path").map((one) => (
          <option key={one.way} value={one.way}>
            {one.label}
          </option>
        ))}
      </select>
      <input
        aria-label={here?.ask}
        aria-invalid={wrong || undefined}
        type={way === "grep" ? "search" : "text"}
        inputMode={way === "grep" || way === "path" ? undefined : "numeric"}
        placeholder={here?.hint}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <button type="submit" aria-disabled={busy}>
        Show
      </button>
      {way === "grep" && (
        <label className="check">
          <input type="checkbox" checked={regular} onChange={(event) => setRegular(event.target.checked)} /> Regular
          expression
        </label>
      )}
      {wrong && (
        <p className="wrong" role="alert">
          {WRONG}
        </p>
      )}
    </form>
  );
}

/** The page before and after; of anything else, what follows. */
function Pager({ view, go }: { view: View; go: (part: Part) => void }) {
  const next = following(view.next as Record<string, unknown>);
  const { page: at, pages: all } = view;
  if (at === null || all === null || all === 1) {
    if (!next) return null;
    return (
      <div className={css.refPager}>
        <button type="button" onClick={() => go(next)}>
          Show what follows
        </button>
      </div>
    );
  }
  return (
    <nav className={css.refPager} aria-label="Pages">
      <button type="button" disabled={at <= 1} onClick={() => go({ page: at - 1 })}>
        Previous
      </button>
      <span>
        {count(at)} of {view.what.includes("about") ? "about " : ""}
        {count(all)}
      </span>
      <button type="button" disabled={!next} onClick={() => next && go(next)}>
        Next
      </button>
    </nav>
  );
}
