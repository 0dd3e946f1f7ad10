// A tool call: one line that expands to its arguments and result.
import { withRefs } from "../../refs/RefText";
import { Icon } from "../../ui/Icon";
import css from "./chat.module.css";

type Props = {
  call: { name: string; arguments: string };
  result: { ok?: boolean; text: string } | undefined;
  running?: boolean;
};

export function ToolCall({ call, result, running = false }: Props) {
  const failed = result?.ok === false;
  return (
    <details className={css.tool}>
      <summary>
        <Icon name="tool" /> <span className={css.name}>{call.name}</span>
        <span className={failed ? "chip bad" : "chip"}>
          {result ? (failed ? "failed" : "done") : running ? "running…" : "no result"}
        </span>
      </summary>
      <h3>Input</h3>
      <pre>{pretty(call.arguments) || "nothing"}</pre>
      {result && (
        <>
          <h3>Output</h3>
          <pre>{withRefs(pretty(result.text))}</pre>
        </>
      )}
    </details>
  );
}

/** Indented JSON; other text unchanged. */
function pretty(text: string): string {
  try {
    const value = JSON.parse(text);
    return typeof value === "string" ? value : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
