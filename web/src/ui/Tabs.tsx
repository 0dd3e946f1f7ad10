// Tabs as links. If they do not fit, buttons at the ends scroll to the others.
import { useEffect, useRef, useState } from "react";
import { Icon } from "./Icon";
import { Link } from "./Link";

export type Tab = { href: string; label: string; here: boolean; badge?: number | string };

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  const row = useRef<HTMLElement>(null);
  const [hidden, setHidden] = useState({ left: false, right: false });
  const at = tabs.map((tab) => `${tab.here} ${tab.badge ?? ""}`).join();
  useEffect(() => {
    const node = row.current;
    if (!node) return;
    let frame = 0;
    const show = () => {
      node.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      look();
    };
    const reveal = () => {
      show();
      cancelAnimationFrame(frame);
      // A scroll button that appears at an end takes space: scroll to the tab again afterwards.
      frame = requestAnimationFrame(() => {
        frame = requestAnimationFrame(show);
      });
    };
    const look = () => {
      const left = node.scrollLeft > 2;
      const right = node.scrollLeft + node.clientWidth < node.scrollWidth - 2;
      setHidden((before) => (before.left === left && before.right === right ? before : { left, right }));
    };
    reveal();
    node.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", reveal);
    return () => {
      cancelAnimationFrame(frame);
      node.removeEventListener("scroll", look);
      window.removeEventListener("resize", reveal);
    };
  }, [at]);
  const scroll = (by: number) => row.current?.scrollBy({ left: by, behavior: "smooth" });
  return (
    <div className="tabs-row">
      {hidden.left && (
        <button type="button" className="icon" aria-label="Earlier tabs" onClick={() => scroll(-160)}>
          <Icon name="back" />
        </button>
      )}
      <nav ref={row} className="tabs" aria-label={label}>
        {tabs.map((tab) => (
          <Link key={tab.href} href={tab.href} aria-current={tab.here ? "page" : undefined}>
            {tab.label}
            {!!tab.badge && <span className="badge">{tab.badge}</span>}
          </Link>
        ))}
      </nav>
      {hidden.right && (
        <button type="button" className="icon" aria-label="More tabs" onClick={() => scroll(160)}>
          <Icon name="right" />
        </button>
      )}
    </div>
  );
}
