// A list that is loaded page by page, with its error, loading and empty states.
import type { ComponentProps, ReactNode } from "react";
import type { Pages } from "../api/load";
import { Failure, Loading } from "./states";
import { VirtualList } from "./VirtualList";

type Props<T> = Omit<ComponentProps<typeof VirtualList<T>>, "items" | "nearEnd" | "stale"> & {
  pages: Pages<T>;
  empty: ReactNode;
};

export function PagedList<T>({ pages, empty, ...rest }: Props<T>) {
  const { items, error, loading } = pages;
  return (
    <>
      {error ? <Failure error={error} retry={pages.retry} /> : null}
      {loading && !items.length && <Loading />}
      {!loading && !error && !items.length && empty}
      {items.length > 0 && <VirtualList items={items} nearEnd={pages.more} stale={pages.stale} {...rest} />}
    </>
  );
}
