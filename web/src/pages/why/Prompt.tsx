// The exact prompt: the messages that the model receives.
import type { ContextAnswer } from "../../api/index";
import { notify } from "../../ui/toast";
import css from "./why.module.css";

type Messages = ContextAnswer["messages"];

export function Prompt({ messages }: { messages: Messages }) {
  const copy = () =>
    navigator.clipboard.writeText(JSON.stringify(messages, null, 2)).then(
      () => notify("Copied."),
      () => notify("The browser does not allow copying. Select the text and copy it."),
    );
  return (
    <details className={css.whyFold}>
      <summary>
        <h2>Exact prompt</h2>
      </summary>
      <div className={css.whyPrompt}>
        <button type="button" onClick={copy}>
          Copy as JSON
        </button>
        <ol>
          {messages.map((message, index) => (
            <li key={index}>
              <b>{String(message.role)}</b>
              <pre className="plain">{messageText(message)}</pre>
            </li>
          ))}
        </ol>
      </div>
    </details>
  );
}

/** A message as text; other content as JSON. */
function messageText({ role: _, content, ...rest }: Messages[number]): string {
  const text = typeof content === "string" ? content : content === null ? "" : JSON.stringify(content, null, 2);
  return Object.keys(rest).length ? [text, JSON.stringify(rest, null, 2)].filter(Boolean).join("\n") : text;
}
