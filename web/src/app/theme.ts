// Light or dark: the system setting, until the user chooses.
import { useState } from "react";
import { store } from "./storage";

export type Theme = "light" | "dark";

const systemTheme = (): Theme => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>((document.documentElement.dataset.theme as Theme) || systemTheme());
  const toggle = () => {
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    store("memorist_theme", next);
    setTheme(next);
  };
  return [theme, toggle];
}
