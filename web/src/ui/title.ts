// The title of the page, for the browser tab and screen readers.
import { useEffect } from "react";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · memorist`;
  }, [title]);
}
