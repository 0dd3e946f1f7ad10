// Values stored in this browser: ids, drafts, choices. The app also works if the browser stores nothing.
export function kept(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Forget all but the theme: whoever comes next is somebody else. */
export function forget(): void {
  try {
    for (const name of Object.keys(localStorage)) if (name !== "retain_theme") localStorage.removeItem(name);
  } catch {
    // then nothing was kept
  }
}

export function keep(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // private mode, or full: it is forgotten with the page
  }
}
