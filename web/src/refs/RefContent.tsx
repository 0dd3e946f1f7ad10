// The content of a reference, by pages or by a chosen part.
import { type FormEvent, useState } from "react";
import { get } from "../api/client";
import type { Ref, View } from "../api/index";
import { useLoad } from "../api/load";
import { useApp } from "../app/context";
import { Failure, Loading } from "../ui/states";
import { count } from "../ui/time";
import { FIRST, following, type Part, partOf, type ViewMode } from "./parts";
import css from "./refs.module.css";

const VIEWS: { mode: ViewMode; label: string; ask: string; hint: string; start: string }[] = [
  { mode: "page", label: "Pages", ask: "Page", hint: "1", start: "1" },
  { mode: "grep", label: "Search inside", ask: "Search inside", hint: "words to look for", start: "" },
  { mode: "lines", label: "Lines", ask: "Lines", hint: "120-160", start: "" },
  { mode: "head", label: "Beginning", ask: "First lines", hint: "20", start: "20" },
  { mode: "tail", label: "End", ask: "Last lines", hint: "20", start: "20" },
  { mode: "path", label: "JSON path", ask: "JSON path", hint: "$.items[0].name", start: "$" },
];
const INVALID = "Enter a number, a range such as 120-160, or words.";

export function RefContent({ of }: { of: Ref }) {
  const { user } = useApp();
  const [part, setPart] = useState<Part>(FIRST);
  const [plain, setPlain] = useState(false);
  const view = useLoad(
    (signal) => get("/api/refs/{key}", { path: { key: of.key }, query: { user, ...part }, signal }),
    [of.key, user, JSON.stringify(part)],
  );
  return (
    <section aria-label="Content" className={css.refContent}>
      <ViewForm json={of.media === "json"} ask={setPart} busy={view.loading} />
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
        !view.error && <Loading label="Reading" />
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

/** The form that chooses the part to show. */
function ViewForm({ json, ask, busy }: { json: boolean; ask: (part: Part) => void; busy: boolean }) {
  const [mode, setMode] = useState<ViewMode>("page");
  const [typed, setTyped] = useState("1");
  const [regular, setRegular] = useState(false);
  const [isInvalid, setIsInvalid] = useState(false);
  const selected = VIEWS.find((view) => view.mode === mode) ?? VIEWS[0];
  const choose = (next: ViewMode) => {
    const start = VIEWS.find((view) => view.mode === next)?.start ?? "";
    setMode(next);
    setTyped(start);
    setIsInvalid(false);
    const part = partOf(next, start, false);
    if (part) ask(part);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const part = partOf(mode, typed, regular);
    setIsInvalid(!part);
    if (part) ask(part);
  };
  return (
    <form className={css.refAsk} onSubmit={submit}>
      <select aria-label="Show" value={mode} onChange={(event) => choose(event.target.value as ViewMode)}>
        {VIEWS.filter((view) => json || view.mode !== "path").map((view) => (
          <option key={view.mode} value={view.mode}>
            {view.label}
          </option>
        ))}
      </select>
      <input
        aria-label={selected?.ask}
        aria-invalid={isInvalid || undefined}
        type={mode === "grep" ? "search" : "text"}
        inputMode={mode === "grep" || mode === "path" ? undefined : "numeric"}
        placeholder={selected?.hint}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <button type="submit" aria-disabled={busy}>
        Show
      </button>
      {mode === "grep" && (
        <label className="check">
          <input type="checkbox" checked={regular} onChange={(event) => setRegular(event.target.checked)} /> Regular
          expression
        </label>
      )}
      {isInvalid && (
        <p className="wrong" role="alert">
          {INVALID}
        </p>
      )}
    </form>
  );
}

/** Buttons for the previous and next page, or for the part that follows. */
function Pager({ view, go }: { view: View; go: (part: Part) => void }) {
  const next = following(view.next as Record<string, unknown>);
  const { page, pages } = view;
  if (page === null || pages === null || pages === 1) {
    if (!next) return null;
    return (
      <div className={css.refPager}>
        <button type="button" onClick={() => go(next)}>
          Show the next part
        </button>
      </div>
    );
  }
  return (
    <nav className={css.refPager} aria-label="Pages">
      <button type="button" disabled={page <= 1} onClick={() => go({ page: page - 1 })}>
        Previous
      </button>
      <span>
        {count(page)} of {view.what.includes("about") ? "about " : ""}
        {count(pages)}
      </span>
      <button type="button" disabled={!next} onClick={() => next && go(next)}>
        Next
      </button>
    </nav>
  );
}
