// What the browser's tab and a screen reader call the page.
import { useEffect } from "react";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · retain`;
  }, [title]);
}
