// An open reference: its description and the chosen part. Only that part is fetched, so that a gigabyte opens as fast as a
// small output.
import { useState } from "react";
import { address, get, patch } from "../api/client";
import type { Ref } from "../api/index";
import { useLoad } from "../api/load";
import { useApp } from "../app/context";
import { to } from "../app/route";
import { Dialog } from "../ui/Dialog";
import { Link } from "../ui/Link";
import { Failure, Loading } from "../ui/states";
import { bytes, count, Time } from "../ui/time";
import { notify } from "../ui/toast";
import { RefContent } from "./RefContent";
import css from "./refs.module.css";

type Props = { refKey: string; close: () => void; changed?: (ref: Ref) => void };

export default function RefViewer({ refKey, close, changed }: Props) {
  const { user } = useApp();
  const info = useLoad(
    (signal) => get("/api/refs/{key}/info", { path: { key: refKey }, query: { user }, signal }),
    [refKey, user],
  );
  const update = (ref: Ref) => {
    info.set(ref);
    changed?.(ref);
  };
  return (
    <Dialog title="Reference" close={close} wide>
      {info.data ? (
        <>
          <About of={info.data} set={update} />
          <RefContent of={info.data} />
        </>
      ) : info.error ? (
        <Failure error={info.error} retry={info.reload} />
      ) : (
        <Loading />
      )}
    </Dialog>
  );
}

/** The metadata of the reference, and whether prompts list it. */
function About({ of, set }: { of: Ref; set: (ref: Ref) => void }) {
  const { user, may } = useApp();
  const [error, setError] = useState<unknown>();
  const [active, setActive] = useState(of.is_active);
  const turn = async (is_active: boolean) => {
    setError(undefined);
    setActive(is_active);
    try {
      set(await patch("/api/refs/{key}", { path: { key: of.key }, query: { user }, body: { is_active } }));
      notify(is_active ? "Prompts mention it again." : "Prompts no longer mention it.");
    } catch (failed) {
      setActive(!is_active);
      setError(failed);
    }
  };
  const { command, status } = of.metadata;
  return (
    <div className={css.refAbout}>
      <p className={css.refSummary}>{of.summary}</p>
      <dl className="details-list">
        <Fact name="Key">
          <code>{of.key}</code>
        </Fact>
        {typeof command === "string" && command && (
          <Fact name="Command">
            <code>{command}</code>
            {typeof status === "string" && status && ` ${status}`}
          </Fact>
        )}
        <Fact name="Type">{of.type.replaceAll("_", " ")}</Fact>
        <Fact name="Size">
          {bytes(of.bytes)} · {count(of.lines)} {of.lines === 1 ? "line" : "lines"} · {count(of.tokens)} tokens
        </Fact>
        {of.agent && (
          <Fact name="Agent">
            <Link href={to(["agents", of.agent])}>{of.agent}</Link>
          </Fact>
        )}
        {of.session && (
          <Fact name="Conversation">
            <Link href={to(["chat", of.agent ?? "assistant", of.session])}>Open it</Link>
          </Fact>
        )}
        <Fact name="Stored">
          <Time at={of.created_at} /> by {of.source}
        </Fact>
      </dl>
      <div className="toolbar">
        {may("write") ? (
          <label className="check">
            <input type="checkbox" checked={active} onChange={(event) => turn(event.target.checked)} />
            Active: prompts may mention it
          </label>
        ) : (
          <span className="chip">{of.is_active ? "active" : "inactive: not in prompts"}</span>
        )}
        <a
          className={css.refWhole}
          href={address("/api/refs/{key}/content", { key: of.key }, { user })}
          download={of.key + (of.media === "json" ? ".json" : of.media === "binary" ? ".bin" : ".txt")}
        >
          Download all
        </a>
      </div>
      {error !== undefined && <Failure error={error} />}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
