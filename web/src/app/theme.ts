// Light or dark: the system setting, until the user chooses.
import { useState } from "react";
import { keep } from "./keep";

export type Theme = "light" | "dark";

const machine = (): Theme => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>((document.documentElement.dataset.theme as Theme) || machine());
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    keep("retain_theme", next);
    setTheme(next);
  };
  return [theme, turn];
}
