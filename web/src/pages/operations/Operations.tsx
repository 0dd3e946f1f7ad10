// Operations: model calls, the health of the server, entries to review, API keys and the audit log.
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { useRoute } from "../../app/route";
import { type Here, useWho } from "../../app/who";
import { Link } from "../../ui/Link";
import { Empty } from "../../ui/states";
import { Tabs } from "../../ui/Tabs";
import { useTitle } from "../../ui/title";
import { Audit } from "./Audit";
import { Calls } from "./Calls";
import { Health } from "./Health";
import { Keys } from "./Keys";
import { Overview } from "./Overview";
import css from "./operations.module.css";
import { Review } from "./Review";

const PARTS = {
  overview: { label: "Overview", admin: false, Part: Overview },
  calls: { label: "Calls", admin: false, Part: Calls },
  health: { label: "Health", admin: false, Part: Health },
  review: { label: "Review", admin: false, Part: Review },
  keys: { label: "API keys", admin: true, Part: Keys },
  audit: { label: "Audit log", admin: true, Part: Audit },
};
type Name = keyof typeof PARTS;

/** Whose data the page shows: that of everybody whom the key gives access to, not of the current user. */
function whose({ me }: Here): string {
  if (me?.user) return `Data of the user ${me.user}`;
  if (me?.agent) return `Data of the agent ${me.agent}, all users`;
  return me && me.tenant !== "default" ? `Data of all users of ${me.tenant}` : "Data of all users";
}

export default function Operations() {
  const { parts } = useRoute();
  const { here, may } = useWho();
  const name = (parts[1] ?? "overview") as Name;
  const part = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
  // A key that is one user's or one agent's says nothing about the whole of a tenant, whatever else it allows.
  const admin = may("admin") && !here.me?.user && !here.me?.agent;
  const waiting = useLoad((signal) => get("/api/entries/counts", { signal }), []);
  useTitle(part?.label ?? "Operations");
  const tabs = (Object.keys(PARTS) as Name[])
    .filter((one) => admin || !PARTS[one].admin)
    .map((one) => ({
      href: one === "overview" ? "/operations" : `/operations/${one}`,
      label: PARTS[one].label,
      here: one === name,
      badge: one === "review" ? (waiting.data?.pending ?? 0) : undefined,
    }));
  return (
    <div className={`page ${css.operations}`}>
      <header>
        <h1>Operations</h1>
        <p className="quiet">{whose(here)}</p>
      </header>
      <Tabs label="Operations" tabs={tabs} />
      {!part ? (
        <Empty title="Page not found">
          <Link href="/operations">Go to the overview</Link>
        </Empty>
      ) : part.admin && !admin ? (
        <Empty title="An admin key is required">
          <p>
            {part.label}: only a key that allows admin, and is bound to no user and no agent, can see this. Yours is{" "}
            <b>{here.me?.name}</b>, which allows {here.me?.permissions.join(", ") || "nothing"}.
          </p>
        </Empty>
      ) : (
        <part.Part changed={waiting.reload} />
      )}
    </div>
  );
}
