// A virtualized list: only visible rows are rendered.
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { type ReactNode, type Ref, useEffect, useEffectEvent, useImperativeHandle, useRef } from "react";

type Props<T> = {
  items: readonly T[];
  keyOf: (item: T) => string | number;
  children: (item: T, index: number) => ReactNode;
  /** The estimated height of an item in pixels; each item is measured once it is visible. */
  size?: number;
  label: string;
  className?: string;
  /** Called when the end is near: load more. */
  nearEnd?: () => void;
  /** The rows belong to the previous request: they stay visible, but cannot be clicked, until the new response arrives. */
  stale?: boolean;
  handle?: Ref<Virtualizer<HTMLDivElement, Element>>;
};

export function VirtualList<T>({
  items,
  keyOf,
  children,
  size = 80,
  label,
  className = "",
  nearEnd,
  stale = false,
  handle,
}: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => size,
    getItemKey: (index) => keyOf(items[index] as T),
    overscan: 6,
  });
  useImperativeHandle(handle, () => list, [list]);
  const visible = list.getVirtualItems();
  const last = visible.at(-1)?.index ?? -1;
  const reachedEnd = useEffectEvent(() => nearEnd?.());
  useEffect(() => {
    if (items.length && last >= items.length - 5) reachedEnd();
  }, [last, items.length]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div ref={box} className={`virtual ${className}`} tabIndex={0} inert={stale} aria-busy={stale}>
      <ul className="virtual-all" aria-label={label} style={{ height: list.getTotalSize() }}>
        {visible.map((row) => (
          <li
            key={row.key}
            ref={list.measureElement}
            data-index={row.index}
            className="virtual-item"
            aria-setsize={items.length}
            aria-posinset={row.index + 1}
            style={{ transform: `translateY(${row.start}px)` }}
          >
            {children(items[row.index] as T, row.index)}
          </li>
        ))}
      </ul>
    </div>
  );
}
