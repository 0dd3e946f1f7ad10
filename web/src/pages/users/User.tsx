// The stored data of one user, with export and erasure.
import { useState } from "react";
import type { Receipt, StoredUser } from "../../api";
import { fetchSignedIn, get, post } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { go, to } from "../../app/route";
import { Dialog } from "../../ui/Dialog";
import { download } from "../../ui/download";
import { Field } from "../../ui/Field";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Empty, Failure, Loading } from "../../ui/states";
import { count, Time } from "../../ui/time";
import { useTitle } from "../../ui/title";
import { notify } from "../../ui/toast";
import css from "./users.module.css";

type Kind = { label: string; href: string; about: string; amount: (user: StoredUser) => number };
const KINDS: Kind[] = [
  { label: "Conversations", href: "/chat", about: "Messages, word for word", amount: (user) => user.conversations },
  {
    label: "Facts",
    href: "/memory/facts",
    about: "What is known, with its evidence",
    amount: (user) => user.facts,
  },
  {
    label: "Entries",
    href: "/memory/entries",
    about: "Core and journal entries of the agents",
    amount: (user) => user.memories,
  },
  { label: "Notes", href: "/memory/notes", about: "Long-term notes, one per agent", amount: (user) => user.notes },
  { label: "References", href: "/memory/refs", about: "Stored outputs of tools", amount: (user) => user.refs },
  { label: "Documents", href: "/memory/documents", about: "Uploaded documents", amount: (user) => user.documents },
  { label: "State", href: "/memory/state", about: "Values set by programs", amount: (user) => user.state },
];

export function User({ name }: { name: string }) {
  const { may, choose, choosable } = useApp();
  const [erasing, setErasing] = useState(false);
  const [receipt, setReceipt] = useState<Receipt>();
  useTitle(name);
  const admin = may("admin") && choosable;
  const stored = useLoad(async (signal) => (admin ? await findUser(name, signal) : null), [name, admin]);
  const show = () => choosable && choose(name);
  return (
    <div className="page">
      <header>
        {admin && (
          <Link href="/users" className={css.back} aria-label="All users">
            <Icon name="back" />
          </Link>
        )}
        <h1>{name}</h1>
        {choosable && (
          <button
            type="button"
            onClick={() => {
              show();
              go("/chat");
            }}
          >
            <Icon name="chat" /> Open chat
          </button>
        )}
      </header>
      {receipt && <Erased receipt={receipt} />}
      {stored.error ? <Failure error={stored.error} retry={stored.reload} /> : null}
      {stored.loading && !stored.data && !stored.error && <Loading label="Loading the user" />}
      {!stored.loading && admin && !stored.data && !stored.error && !receipt && (
        <Empty title={`Nothing is stored about ${name}`}>
          <p>Check the spelling, or look for the name in the list of users.</p>
          <p>
            <Link href="/users">All users</Link>
          </p>
        </Empty>
      )}
      {(stored.data || !admin) && !stored.loading && (
        <>
          <section aria-labelledby="stored">
            <h2 id="stored">What is stored</h2>
            <ul className={css.kinds} aria-labelledby="stored">
              {KINDS.map((kind) => (
                <li key={kind.label} className="card">
                  <Link href={kind.href} onClick={show}>
                    {kind.label}
                  </Link>
                  {stored.data && <b>{count(kind.amount(stored.data))}</b>}
                  <p className="quiet">{kind.about}</p>
                </li>
              ))}
            </ul>
            {stored.data && (
              <p className="quiet">
                Last active <Time at={stored.data.last_active_at} />.
                {stored.data.pending > 0 && (
                  <>
                    {" "}
                    <Link href="/operations/review">{count(stored.data.pending)} entries wait for review.</Link>
                  </>
                )}
              </p>
            )}
          </section>
          {admin && (
            <section aria-labelledby="rights" className={css.rights}>
              <h2 id="rights">Export or erase</h2>
              <div className="toolbar">
                <Export name={name} />
                {may("delete") && (
                  <button type="button" className="danger" onClick={() => setErasing(true)}>
                    <Icon name="remove" /> Erase…
                  </button>
                )}
              </div>
              <p className="quiet">
                The export is a file in JSON Lines that <code>memorist import</code> reads. Erasing removes everything
                in the list above permanently, and the user’s API keys.
              </p>
            </section>
          )}
        </>
      )}
      {erasing && (
        <Erase
          name={name}
          close={() => setErasing(false)}
          erased={(done) => {
            setErasing(false);
            setReceipt(done);
            stored.reload();
          }}
        />
      )}
    </div>
  );
}

async function findUser(name: string, signal: AbortSignal): Promise<StoredUser | null> {
  for (let after: string | undefined; ; ) {
    const page = await get("/api/users", { query: { search: name, limit: 100, after }, signal });
    const exact = page.data.find((user) => user.user === name);
    if (exact || !page.next) return exact ?? null;
    after = page.next;
  }
}

function Export({ name }: { name: string }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const startExport = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const answer = await fetchSignedIn(`${to(["api", "users", name])}/export`, { method: "POST" });
      download(`${name}.jsonl`, "application/jsonl", await answer.text());
      notify(`Exported everything about ${name}.`);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button type="button" onClick={startExport} disabled={busy}>
        Export
      </button>
      {error ? <Failure error={error} retry={startExport} /> : null}
    </>
  );
}

type EraseProps = { name: string; close: () => void; erased: (receipt: Receipt) => void };

function Erase({ name, close, erased }: EraseProps) {
  const { user, choose, refresh } = useApp();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const confirmErase = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const receipt = await post("/api/users/{user}/erase", { path: { user: name } });
      if (user === name) {
        choose(null);
        refresh();
      }
      erased(receipt);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Erase ${name}?`} close={close}>
      <p>
        Everything that is stored about {name} will be removed: conversations, facts, entries, notes, references,
        documents and state. This cannot be undone. Copies in backups stay until the backups are deleted.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === name && !busy) confirmErase();
        }}
      >
        <Field label={`Type “${name}” to confirm`}>
          <input autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} autoFocus />
        </Field>
        {error ? <Failure error={error} /> : null}
        <footer className="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="danger" disabled={typed !== name || busy}>
            Erase
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The result of an erasure: the removed records by kind. */
function Erased({ receipt }: { receipt: Receipt }) {
  const removed = Object.entries(receipt.removed).filter(([, amount]) => amount > 0);
  return (
    <section className={`card ${css.receipt}`} role="status" aria-label="Receipt">
      <p>
        <b>Everything about {receipt.user} is erased.</b> <Time at={receipt.erased_at} />
      </p>
      <p className="quiet">
        {removed.length
          ? `Removed rows: ${removed.map(([table, amount]) => `${table} ${count(amount)}`).join(", ")}.`
          : "There was nothing to remove."}
        {!receipt.compacted &&
          " Some deleted data is still in the database files; “memorist erase --compact” clears it."}
      </p>
    </section>
  );
}
