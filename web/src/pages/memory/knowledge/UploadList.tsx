// The running uploads: progress, result, and a retry for failures.
import { told } from "../../../api/client";
import { Icon } from "../../../ui/Icon";
import { Link } from "../../../ui/Link";
import { bytes } from "../../../ui/time";
import { useAsked } from "../asked";
import css from "../memory.module.css";
import { plural } from "./DocumentRow";
import { drop, dropDone, retry, type Upload, useUploads } from "./uploads";

export function UploadList() {
  const all = useUploads();
  if (!all.length) return null;
  const done = all.filter((one) => one.state === "done").length;
  const failed = all.filter((one) => one.state === "failed").length;
  return (
    <section className={`card ${css.uploads}`} aria-label="Uploads">
      <div className="toolbar">
        <p className={css.grow} role="status">
          {done} of {all.length} added{failed > 0 && `, ${failed} failed`}
        </p>
        {done > 0 && (
          <button type="button" className="plain" onClick={dropDone}>
            Hide completed
          </button>
        )}
      </div>
      <ul className={css.bare}>
        {all.map((one) => (
          <One key={one.id} one={one} />
        ))}
      </ul>
    </section>
  );
}

function One({ one }: { one: Upload }) {
  return (
    <li className={css.row}>
      <div className={css.what}>
        <h3>{one.path}</h3>
        <Where one={one} />
      </div>
      <div className={css.deeds}>
        {one.state === "failed" && (
          <button type="button" onClick={() => retry(one.id)}>
            Try again
          </button>
        )}
        <button
          type="button"
          className="icon"
          title={one.state === "done" || one.state === "failed" ? "Hide" : "Cancel"}
          aria-label={`${one.state === "done" || one.state === "failed" ? "Hide" : "Cancel"} ${one.path}`}
          onClick={() => drop(one.id)}
        >
          <Icon name="close" />
        </button>
      </div>
    </li>
  );
}

const OUTCOMES = {
  added: "Added",
  replaced: "Replaced the document at this path",
  unchanged: "Unchanged",
};

function Where({ one }: { one: Upload }) {
  const { href } = useAsked();
  if (one.state === "waiting") return <p className="quiet">Waiting · {bytes(one.file.size)}</p>;
  if (one.state === "failed") {
    return (
      <p className="wrong" role="alert">
        {told(one.error).replace(/^file: /, "The file ")}
      </p>
    );
  }
  if (one.state === "done" && one.document && one.outcome) {
    return (
      <p className="quiet">
        {OUTCOMES[one.outcome]}: <Link href={href({ doc: one.document.id, seq: undefined })}>{one.document.title}</Link>
        , {plural(one.document.chunks, "passage")}
      </p>
    );
  }
  const reading = one.state === "reading";
  return (
    <p className={`quiet ${css.progress}`}>
      <progress value={reading ? undefined : one.part} aria-label={`${one.path}: ${reading ? "reading" : "sending"}`} />
      {reading ? "Reading…" : `${Math.round(one.part * 100)} % of ${bytes(one.file.size)}`}
    </p>
  );
}
