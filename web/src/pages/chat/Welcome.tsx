// The start of a conversation: what the agent does, and examples to click.
import { useApp } from "../../app/context";
import { Link } from "../../ui/Link";
import css from "./chat.module.css";

const EXAMPLES = [
  "My sister lives in Lisbon and is allergic to nuts.",
  "Remember: I like short answers.",
  "Where does my sister live?",
];

export function Welcome({ agent, say }: { agent: string; say: (text: string) => void }) {
  const { may } = useApp();
  return (
    <div className={css.welcome}>
      <h2>Talk to {agent}. It remembers what you tell it.</h2>
      <p className="quiet">
        Your messages are stored and survive a reload or a restart. For each answer, “Why” shows what it was based on.
      </p>
      {may("admin") && (
        <p className="quiet">
          To look around first, <Link href="/users">add demo data</Link>.
        </p>
      )}
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
