// Pages of one thing, side by side; each has an address, so they are links.
import { Link } from "./Link";

export type Tab = { href: string; label: string; here: boolean; badge?: number };

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.href} href={tab.href} aria-current={tab.here ? "page" : undefined}>
          {tab.label}
          {!!tab.badge && <span className="badge">{tab.badge}</span>}
        </Link>
      ))}
    </nav>
  );
}
