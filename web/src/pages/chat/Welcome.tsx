// What somebody sees who has said nothing yet: what this is, and something to click.
import { useWho } from "../../app/who";
import css from "./chat.module.css";

const EXAMPLES = [
  "My sister lives in Lisbon and is allergic to nuts.",
  "Remember: I like short answers.",
  "Where does my sister live?",
];

export function Welcome({ agent, say }: { agent: string; say: (text: string) => void }) {
  const { here, may } = useWho();
  return (
    <div className={css.welcome}>
      <h2>Talk to {agent}. It remembers what you tell it.</h2>
      <p className="quiet">
        What you say is kept, also after a reload, a restart or on another device. For each answer you can ask why.
      </p>
      {here.model === null && <NoModel />}
      {may("write") && (
        <ul aria-label="Examples">
          {EXAMPLES.map((example) => (
            <li key={example}>
              <button type="button" className={css.example} onClick={() => say(example)}>
                {example}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Said once, where it matters: without a model, memory alone answers. */
export function NoModel() {
  return (
    <div className={`card ${css.notice}`}>
      <p>
        <b>No model is set, so answers come from memory only.</b> Everything is kept all the same. To have a model write
        the answers, start the server with <code>RETAIN_MODEL</code> and <code>RETAIN_BASE_URL</code>, for example:
      </p>
      <pre>RETAIN_MODEL=llama3.2 RETAIN_BASE_URL=http://localhost:11434/v1 retain serve</pre>
    </div>
  );
}
