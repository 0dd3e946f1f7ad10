// A document in the list, with a button to remove it.
import { useState } from "react";
import { Problem, remove } from "../../../api/client";
import type { Document } from "../../../api/index";
import { useApp } from "../../../app/context";
import { Confirm } from "../../../ui/Dialog";
import { Icon } from "../../../ui/Icon";
import { Link } from "../../../ui/Link";
import { Failure } from "../../../ui/states";
import { bytes, plural, Time } from "../../../ui/time";
import { notify } from "../../../ui/toast";
import css from "../memory.module.css";
import { usePageState } from "../pageState";

/** True if the document can be removed: a key bound to one user cannot remove documents of the tenant. */
export function useRemovable(document: Document): boolean {
  const { may, choosable } = useApp();
  return may("delete") && (document.user !== null || choosable);
}

export function DocumentRow({ document, remove }: { document: Document; remove: () => void }) {
  const { href } = usePageState();
  const removable = useRemovable(document);
  return (
    <div className={css.row}>
      <div className={css.what}>
        <h3>
          <Link className={css.opens} href={href({ doc: document.id, seq: undefined })}>
            {document.title}
          </Link>
        </h3>
        <Facts document={document} />
      </div>
      <div className={css.deeds}>
        {removable && (
          <button
            type="button"
            className="icon"
            title="Remove"
            aria-label={`Remove ${document.title}`}
            onClick={remove}
          >
            <Icon name="remove" />
          </button>
        )}
      </div>
    </div>
  );
}

export function Facts({ document }: { document: Document }) {
  const { title, path, media, chunks, user } = document;
  return (
    <p className="quiet">
      {path && path !== title && <>{path} · </>}
      {media} · {bytes(document.bytes)} · {plural(chunks, "passage")} · <Time at={document.updated_at} />
      {user === null && " · everybody’s"}
    </p>
  );
}

type RemoveProps = { document: Document; onRemoved: () => void; close: () => void };

export function RemoveDialog({ document, onRemoved, close }: RemoveProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const done = () => {
    notify(`${document.title} is removed.`);
    close();
    onRemoved();
  };
  const confirmRemoval = async () => {
    setBusy(true);
    try {
      await remove("/api/documents/{id}", { path: { id: document.id }, query: { user: document.user ?? undefined } });
      done();
    } catch (failure) {
      if (failure instanceof Problem && failure.status === 404) return done();
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title="Remove this document?" yes="Remove" busy={busy} onConfirm={confirmRemoval} close={close}>
      <p>
        <b>{document.title}</b> and its {plural(document.chunks, "passage")} are deleted permanently
        {document.user === null ? ", for all users" : ""}.
      </p>
      {error ? <Failure error={error} /> : null}
    </Confirm>
  );
}
