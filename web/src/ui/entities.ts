// Named characters in Markdown, such as `&amp;`. The Markdown library would let the browser parse HTML to decode them, which
// our content security policy forbids; unknown names stay as written.
const NAMES =
  "amp & lt < gt > quot \" apos ' nbsp \u00a0 shy \u00ad copy © reg ® trade ™ deg ° para ¶ sect § middot · bull • hellip … " +
  "ndash – mdash — lsquo ‘ rsquo ’ sbquo ‚ ldquo “ rdquo ” bdquo „ laquo « raquo » lsaquo ‹ rsaquo › iexcl ¡ iquest ¿ " +
  "euro € pound £ yen ¥ cent ¢ times × divide ÷ plusmn ± minus − frac12 ½ frac14 ¼ frac34 ¾ sup2 ² sup3 ³ infin ∞ ne ≠ le ≤ ge ≥ " +
  "asymp ≈ larr ← uarr ↑ rarr → darr ↓ harr ↔ check ✓ cross ✗ alpha α beta β gamma γ delta δ lambda λ mu μ pi π sigma σ omega ω " +
  "szlig ß agrave à aacute á acirc â atilde ã auml ä aring å aelig æ ccedil ç egrave è eacute é ecirc ê euml ë iacute í icirc î " +
  "ntilde ñ ograve ò oacute ó ocirc ô otilde õ ouml ö oslash ø ugrave ù uacute ú ucirc û uuml ü Auml Ä Aring Å Eacute É Ouml Ö Oslash Ø Uuml Ü";
const words = NAMES.split(" ");
const characters = new Map(
  words.flatMap((name, index) => (index % 2 ? [] : [[name, words[index + 1] as string] as const])),
);

/** The character for a name between `&` and `;`; false if it is unknown. */
export const decodeNamedCharacterReference = (name: string): string | false => characters.get(name) ?? false;
