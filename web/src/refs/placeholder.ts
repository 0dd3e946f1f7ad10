// `[MemoryRef: key - description]` in a text, parsed exactly as in packages/memorist/src/memorist/content/placeholder.py.

export type Placeholder = { key: string; description: string };
const WHOLE = /\[MemoryRef: ([A-Za-z0-9][A-Za-z0-9._-]{0,254})(?: - ([^[\]\n]*))?\]/g;

/** A text split into plain text and placeholders. */
export function pieces(text: string): (string | Placeholder)[] {
  const parts: (string | Placeholder)[] = [];
  let done = 0;
  for (const match of text.matchAll(WHOLE)) {
    if (match.index > done) parts.push(text.slice(done, match.index));
    parts.push({ key: match[1] as string, description: match[2] ?? "" });
    done = match.index + match[0].length;
  }
  if (done < text.length) parts.push(text.slice(done));
  return parts;
}
