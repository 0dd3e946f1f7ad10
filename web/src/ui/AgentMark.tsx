// An agent's icon in its colour. Both are untrusted text: an invalid colour is ignored.
const letters = new Intl.Segmenter();

export function AgentMark({ name, color, icon, large = false }: Marked) {
  const shown = [...letters.segment(icon?.trim() || name.trim())][0]?.segment ?? "?";
  return (
    <span className={large ? "agent-mark large" : "agent-mark"} style={paint(color)} aria-hidden="true">
      {icon?.trim() ? shown : shown.toUpperCase()}
    </span>
  );
}

type Marked = { name: string; color?: string; icon?: string; large?: boolean };

/** The colour as a CSS property; the style sheet mixes it with the background so that text on it stays readable. */
function paint(color = ""): React.CSSProperties | undefined {
  return isColor(color) ? ({ "--mark": color } as React.CSSProperties) : undefined;
}

/** True if a text is a valid agent colour. */
export const isColor = (text: string) => /^#[0-9a-f]{6}$/i.test(text);
