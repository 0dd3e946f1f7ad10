// The append-only audit log: who changed, exported or erased what, and when.
import { useState } from "react";
import { get } from "../../api/client";
import { useDebounced } from "../../api/debounced";
import type { AuditRecord } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { Dialog } from "../../ui/Dialog";
import { days } from "../../ui/days";
import { download } from "../../ui/download";
import { PagedList } from "../../ui/PagedList";
import { Empty } from "../../ui/states";
import { count, moment, Time } from "../../ui/time";
import { csv } from "./csv";
import { Facts } from "./Facts";
import css from "./operations.module.css";

export function Audit() {
  const [typed, setTyped] = useState({ who: "", what: "", since: "", until: "" });
  const [open, setOpen] = useState<AuditRecord | null>(null);
  const filter = useDebounced(typed, 300);
  const records = usePages<AuditRecord>(
    (after, signal) => {
      const query = { who: filter.who, what: filter.what, ...days(filter.since, filter.until) };
      return get("/api/audit", { query: { ...query, limit: 200, after }, signal });
    },
    [filter],
  );
  const last = useLoad((signal) => get("/api/audit", { query: { limit: 1 }, signal }), []);
  const field = (name: keyof typeof typed) => ({
    value: typed[name],
    onChange: (event: { target: { value: string } }) => setTyped({ ...typed, [name]: event.target.value }),
  });
  const filtered = Object.values(filter).some(Boolean);
  return (
    <>
      <div className={`toolbar ${css.filters}`}>
        <input type="search" aria-label="Who" placeholder="Who, for example local" {...field("who")} />
        <input type="search" aria-label="What" placeholder="What, for example keys_add" {...field("what")} />
        <label className="check">
          From <input type="date" {...field("since")} />
        </label>
        <label className="check">
          to <input type="date" {...field("until")} />
        </label>
        {records.items.length > 0 && <Export records={records.items} more={records.hasMore} />}
      </div>
      <PagedList
        pages={records}
        keyOf={(record) => record.number}
        size={62}
        label="Audit records"
        className={css.tall}
        empty={<NoResults filtered={filtered} />}
      >
        {(record) => (
          <button type="button" className={css.lineButton} onClick={() => setOpen(record)}>
            <span className={css.lineMain}>
              <b>{record.what}</b> <span className="quiet">{record.who}</span>
              {record.secrets > 0 && <span className="chip warn">{record.secrets} secrets</span>}
              <span className={css.lineWhen}>
                <Time at={record.at} />
              </span>
            </span>
            <span className={`quiet ${css.lineMore}`}>
              {record.number} · {record.subject || "—"}
            </span>
          </button>
        )}
      </PagedList>
      {last.data?.data[0] && <Chain record={last.data.data[0]} />}
      {open && <RecordDialog record={open} close={() => setOpen(null)} />}
    </>
  );
}

function NoResults({ filtered }: { filtered: boolean }) {
  return (
    <Empty title={filtered ? "No matching changes" : "No changes yet"}>
      <p>
        {filtered
          ? "Filters match whole names. Try fewer filters."
          : "Changes appear here, with their author. The setting audit determines which changes are recorded."}
      </p>
    </Empty>
  );
}

/** The end of the hash chain. A copy of it proves later that no earlier record was changed. */
function Chain({ record }: { record: AuditRecord }) {
  return (
    <p className={`quiet ${css.chain}`}>
      Each row includes the hash of the rows before it. The last row when this page was opened: number {record.number},
      hash <code>{record.chain}</code>. Store both elsewhere from time to time; <code>memorist verify</code> checks the
      log.
    </p>
  );
}

function Export({ records, more }: { records: AuditRecord[]; more: boolean }) {
  const label = `${count(records.length)} lines${more ? " that were loaded" : ""}`;
  return (
    <span className="toolbar" title={`The ${label}`}>
      <button type="button" onClick={() => download("audit.csv", "text/csv", csv(records))}>
        Save as CSV
      </button>
      <button
        type="button"
        onClick={() => download("audit.json", "application/json", JSON.stringify(records, null, 2))}
      >
        Save as JSON
      </button>
    </span>
  );
}

function RecordDialog({ record, close }: { record: AuditRecord; close: () => void }) {
  return (
    <Dialog title={`${record.number}: ${record.what}`} close={close} wide>
      <Facts
        facts={[
          ["When", moment(record.at)],
          ["Who", record.who],
          ["What", record.what],
          ["Subject", record.subject],
          ["Before", record.before && <code>{record.before}</code>],
          ["After", record.after && <code>{record.after}</code>],
          ["Secrets found", record.secrets || null],
          ["Request", record.request_id],
          ["Chain", <code key="chain">{record.chain}</code>],
        ]}
      />
    </Dialog>
  );
}
