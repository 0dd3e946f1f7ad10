// Pages of one thing, side by side; each has an address, so they are links.
import { useEffect, useRef } from "react";
import { Link } from "./Link";

export type Tab = { href: string; label: string; here: boolean; badge?: number | string };

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  const row = useRef<HTMLElement>(null);
  const at = tabs.map((tab) => `${tab.here} ${tab.badge ?? ""}`).join();
  useEffect(() => {
    row.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [at]);
  return (
    <nav ref={row} className="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.href} href={tab.href} aria-current={tab.here ? "page" : undefined}>
          {tab.label}
          {!!tab.badge && <span className="badge">{tab.badge}</span>}
        </Link>
      ))}
    </nav>
  );
}
