// The append-only audit log: who changed, exported or erased what, and when.
import { useState } from "react";
import { get } from "../../api/client";
import type { Deed } from "../../api/index";
import { useLoad, usePages } from "../../api/load";
import { useSettled } from "../../api/settled";
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
  const [said, setSaid] = useState({ who: "", what: "", since: "", until: "" });
  const [open, setOpen] = useState<Deed | null>(null);
  const asked = useSettled(said, 300);
  const deeds = usePages<Deed>(
    (after, signal) => {
      const query = { who: asked.who, what: asked.what, ...days(asked.since, asked.until) };
      return get("/api/audit", { query: { ...query, limit: 200, after }, signal });
    },
    [asked],
  );
  const last = useLoad((signal) => get("/api/audit", { query: { limit: 1 }, signal }), []);
  const field = (name: keyof typeof said) => ({
    value: said[name],
    onChange: (event: { target: { value: string } }) => setSaid({ ...said, [name]: event.target.value }),
  });
  const filtered = Object.values(asked).some(Boolean);
  return (
    <>
      <div className={`toolbar ${css.filters}`}>
        <input type="search" aria-label="Who" placeholder="Who, for example local" {...field("who")} />
        <input type="search" aria-label="What" placeholder="What, for example keys_create" {...field("what")} />
        <label className="check">
          From <input type="date" {...field("since")} />
        </label>
        <label className="check">
          to <input type="date" {...field("until")} />
        </label>
        {deeds.items.length > 0 && <Export deeds={deeds.items} more={deeds.hasMore} />}
      </div>
      <PagedList
        pages={deeds}
        keyOf={(deed) => deed.number}
        size={62}
        label="Deeds"
        className={css.tall}
        empty={<Nothing filtered={filtered} />}
      >
        {(deed) => (
          <button type="button" className={css.lineButton} onClick={() => setOpen(deed)}>
            <span className={css.lineMain}>
              <b>{deed.what}</b> <span className="quiet">{deed.who}</span>
              {deed.secrets > 0 && <span className="chip warn">{deed.secrets} secrets</span>}
              <span className={css.lineWhen}>
                <Time at={deed.at} />
              </span>
            </span>
            <span className={`quiet ${css.lineMore}`}>
              {deed.number} · {deed.subject || "—"}
            </span>
          </button>
        )}
      </PagedList>
      {last.data?.data[0] && <Chain deed={last.data.data[0]} />}
      {open && <OneDeed deed={open} close={() => setOpen(null)} />}
    </>
  );
}

/** The end of the chain: whoever wrote it down can tell later whether a line before it was changed. */
function Nothing({ filtered }: { filtered: boolean }) {
  return (
    <Empty title={filtered ? "No matching changes" : "Nothing was done yet"}>
      <p>
        {filtered
          ? "Names are matched whole: try with fewer filters."
          : "Every change is noted here, with who made it."}
      </p>
    </Empty>
  );
}

function Chain({ deed }: { deed: Deed }) {
  return (
    <p className={`quiet ${css.chain}`}>
      Each row includes the hash of the rows before it. The last row when this page was opened: number {deed.number},
      hash <code>{deed.chain}</code>. Store both elsewhere from time to time; <code>retain verify</code> checks the log.
    </p>
  );
}

function Export({ deeds, more }: { deeds: Deed[]; more: boolean }) {
  const what = `${count(deeds.length)} lines${more ? " that were loaded" : ""}`;
  return (
    <span className="toolbar" title={`The ${what}`}>
      <button type="button" onClick={() => download("audit.csv", "text/csv", csv(deeds))}>
        Save as CSV
      </button>
      <button type="button" onClick={() => download("audit.json", "application/json", JSON.stringify(deeds, null, 2))}>
        Save as JSON
      </button>
    </span>
  );
}

function OneDeed({ deed, close }: { deed: Deed; close: () => void }) {
  return (
    <Dialog title={`${deed.number}: ${deed.what}`} close={close} wide>
      <Facts
        facts={[
          ["When", moment(deed.at)],
          ["Who", deed.who],
          ["What", deed.what],
          ["Subject", deed.subject],
          ["Before", deed.before && <code>{deed.before}</code>],
          ["After", deed.after && <code>{deed.after}</code>],
          ["Secrets found", deed.secrets || null],
          ["Request", deed.request_id],
          ["Chain", <code key="chain">{deed.chain}</code>],
        ]}
      />
    </Dialog>
  );
}
