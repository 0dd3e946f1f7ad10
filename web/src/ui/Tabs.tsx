// Tabs as links. If they do not fit, buttons at the ends scroll to the others.
import { useEffect, useRef, useState } from "react";
import { Icon } from "./Icon";
import { Link } from "./Link";

export type Tab = { href: string; label: string; current: boolean; badge?: number | string };

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  const row = useRef<HTMLElement>(null);
  const [hidden, setHidden] = useState({ left: false, right: false });
  const state = tabs.map((tab) => `${tab.current} ${tab.badge ?? ""}`).join();
  useEffect(() => {
    const node = row.current;
    if (!node) return;
    let frame = 0;
    const show = () => {
      node.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      updateHidden();
    };
    const reveal = () => {
      show();
      cancelAnimationFrame(frame);
      // A scroll button that appears at an end takes space: scroll to the tab again afterwards.
      frame = requestAnimationFrame(() => {
        frame = requestAnimationFrame(show);
      });
    };
    const updateHidden = () => {
      const left = node.scrollLeft > 2;
      const right = node.scrollLeft + node.clientWidth < node.scrollWidth - 2;
      setHidden((previous) => (previous.left === left && previous.right === right ? previous : { left, right }));
    };
    reveal();
    node.addEventListener("scroll", updateHidden, { passive: true });
    window.addEventListener("resize", reveal);
    return () => {
      cancelAnimationFrame(frame);
      node.removeEventListener("scroll", updateHidden);
      window.removeEventListener("resize", reveal);
    };
  }, [state]);
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
          <Link key={tab.href} href={tab.href} aria-current={tab.current ? "page" : undefined}>
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
