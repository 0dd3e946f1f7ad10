// The running uploads: progress, result, and a retry for failures.
import { errorMessage } from "../../../api/client";
import { Icon } from "../../../ui/Icon";
import { Link } from "../../../ui/Link";
import { bytes, plural } from "../../../ui/time";
import css from "../memory.module.css";
import { usePageState } from "../pageState";
import { dropDone, removeUpload, retry, type Upload, useUploads } from "./uploads";

export function UploadList() {
  const uploads = useUploads();
  if (!uploads.length) return null;
  const done = uploads.filter((upload) => upload.state === "done").length;
  const failed = uploads.filter((upload) => upload.state === "failed").length;
  return (
    <section className={`card ${css.uploads}`} aria-label="Uploads">
      <div className="toolbar">
        <p className={css.grow} role="status">
          {done} of {uploads.length} added{failed > 0 && `, ${failed} failed`}
        </p>
        {done > 0 && (
          <button type="button" className="plain" onClick={dropDone}>
            Hide completed
          </button>
        )}
      </div>
      <ul className={css.bare}>
        {uploads.map((upload) => (
          <UploadRow key={upload.id} upload={upload} />
        ))}
      </ul>
    </section>
  );
}

function UploadRow({ upload }: { upload: Upload }) {
  return (
    <li className={css.row}>
      <div className={css.what}>
        <h3>{upload.path}</h3>
        <UploadState upload={upload} />
      </div>
      <div className={css.deeds}>
        {upload.state === "failed" && (
          <button type="button" onClick={() => retry(upload.id)}>
            Try again
          </button>
        )}
        <button
          type="button"
          className="icon"
          title={upload.state === "done" || upload.state === "failed" ? "Hide" : "Cancel"}
          aria-label={`${upload.state === "done" || upload.state === "failed" ? "Hide" : "Cancel"} ${upload.path}`}
          onClick={() => removeUpload(upload.id)}
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

function UploadState({ upload }: { upload: Upload }) {
  const { href } = usePageState();
  if (upload.state === "waiting") return <p className="quiet">Waiting · {bytes(upload.file.size)}</p>;
  if (upload.state === "failed") {
    return (
      <p className="wrong" role="alert">
        {errorMessage(upload.error).replace(/^file: /, "The file ")}
      </p>
    );
  }
  if (upload.state === "done" && upload.document && upload.outcome) {
    return (
      <p className="quiet">
        {OUTCOMES[upload.outcome]}:{" "}
        <Link href={href({ doc: upload.document.id, seq: undefined })}>{upload.document.title}</Link>,{" "}
        {plural(upload.document.chunks, "passage")}
      </p>
    );
  }
  const reading = upload.state === "reading";
  return (
    <p className={`quiet ${css.progress}`}>
      <progress
        value={reading ? undefined : upload.part}
        aria-label={`${upload.path}: ${reading ? "reading" : "sending"}`}
      />
      {reading ? "Reading…" : `${Math.round(upload.part * 100)} % of ${bytes(upload.file.size)}`}
    </p>
  );
}
