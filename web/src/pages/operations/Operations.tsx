// Operations: model calls, the health of the server, entries to review, API keys, webhooks and the audit log.
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { type ServerInfo, useApp } from "../../app/context";
import { useRoute } from "../../app/route";
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
import { Webhooks } from "./Webhooks";

const PARTS = {
  overview: { label: "Overview", admin: false, Part: Overview },
  calls: { label: "Calls", admin: false, Part: Calls },
  health: { label: "Health", admin: false, Part: Health },
  review: { label: "Review", admin: false, Part: Review },
  keys: { label: "API keys", admin: true, Part: Keys },
  webhooks: { label: "Webhooks", admin: true, Part: Webhooks },
  audit: { label: "Audit log", admin: true, Part: Audit },
};
type Name = keyof typeof PARTS;

/** The owner of the data on this page: all data that the key gives access to, not only that of the current user. */
function scopeLabel({ me }: ServerInfo): string {
  if (me?.user) return `Data of the user ${me.user}`;
  if (me?.agent) return `Data of the agent ${me.agent}, all users`;
  return me && me.tenant !== "default" ? `Data of all users of ${me.tenant}` : "Data of all users";
}

export default function Operations() {
  const { parts } = useRoute();
  const { server, may } = useApp();
  const name = (parts[1] ?? "overview") as Name;
  const part = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
  // A key bound to a user or agent gives no access to data of the whole tenant.
  const admin = may("admin") && !server.me?.user && !server.me?.agent;
  const waiting = useLoad((signal) => get("/api/entries/counts", { signal }), []);
  useTitle(part?.label ?? "Operations");
  const tabs = (Object.keys(PARTS) as Name[])
    .filter((partName) => admin || !PARTS[partName].admin)
    .map((partName) => ({
      href: partName === "overview" ? "/operations" : `/operations/${partName}`,
      label: PARTS[partName].label,
      current: partName === name,
      badge: partName === "review" ? (waiting.data?.pending ?? 0) : undefined,
    }));
  return (
    <div className={`page ${css.operations}`}>
      <header>
        <h1>Operations</h1>
        <p className="quiet">{scopeLabel(server)}</p>
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
            <b>{server.me?.name}</b>, which allows {server.me?.permissions.join(", ") || "nothing"}.
          </p>
        </Empty>
      ) : (
        <part.Part changed={waiting.reload} />
      )}
    </div>
  );
}
