// Text for a reviewer: invisible characters are shown as code points, because instructions can hide in them.
export type Part = { text: string; hidden: boolean };

// The characters that the server reports as suspicious, and all other invisible characters.
const HIDDEN = /[\p{Cf}\p{Cc}\u115f\u1160\u2028\u2029\u3164\uffa0]/gu;
const PLAIN = new Set(["\n", "\t"]);

/** The text in parts; invisible characters are shown as code points. */
export function visible(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (PLAIN.has(match[0])) continue;
    if (match.index > from) parts.push({ text: text.slice(from, match.index), hidden: false });
    const number = (match[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    parts.push({ text: `U+${number}`, hidden: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), hidden: false });
  return parts;
}

/** Explanations of the warning marks, for the reviewer. */
export const SIGNS: Record<string, string> = {
  instruction: "It tells the agent how to behave from now on.",
  order: "It asks to send, run, install, delete or pay something.",
  authority: "It claims that somebody in charge approved or wants something.",
  role: "It looks like the beginning of a system or user message.",
  placeholder: "It imitates a reference to a stored output.",
  address: "It contains a web address or another link.",
  image: "It contains an image or a tag, which could leak data.",
  encoded: "It contains encoded text that people cannot read.",
  invisible: "It contains characters that cannot be seen.",
  secret: "It contains something that looks like a key or a password.",
};
