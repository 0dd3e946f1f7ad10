// Values stored in this browser: ids, drafts, choices. The app also works if the browser stores nothing.
export function readStored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Remove everything except the theme, because the next user is another person. */
export function clearStored(): void {
  try {
    for (const name of Object.keys(localStorage)) if (name !== "memorist_theme") localStorage.removeItem(name);
  } catch {
    // storage is not available: nothing to remove
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // private mode or full storage: the value is lost with the page
  }
}
