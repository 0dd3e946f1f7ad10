// The colour and icon of an agent: choose a preset or enter your own.
import { AgentMark, isColor } from "../../ui/AgentMark";
import { Field } from "../../ui/Field";
import css from "./agents.module.css";

const COLORS: [string, string][] = [
  ["#0f766e", "Teal"],
  ["#2563a8", "Blue"],
  ["#5b54b8", "Indigo"],
  ["#8a4fa3", "Plum"],
  ["#b4487b", "Rose"],
  ["#b5483a", "Brick"],
  ["#b8722c", "Amber"],
  ["#8a7a1f", "Olive"],
  ["#4a7f3f", "Green"],
  ["#64707d", "Slate"],
];
const ICONS = ["🤖", "🦊", "🦉", "🐢", "🧭", "📚", "🔧", "🌱", "🪶", "☕"];

type Props = { name: string; color: string; icon: string; change: (part: { color?: string; icon?: string }) => void };

export function Looks({ name, color, icon, change }: Props) {
  return (
    <fieldset className={css.parts}>
      <legend>Appearance</legend>
      <div className={css.looksNow}>
        <AgentMark name={name || "?"} color={color} icon={icon} large />
        <span className="quiet">The agent’s mark in lists and in the chat.</span>
      </div>
      <fieldset className={css.swatches}>
        <legend className="visually-hidden">Colours</legend>
        {COLORS.map(([value, label]) => (
          <button
            key={value}
            type="button"
            className={css.swatch}
            aria-label={label}
            aria-pressed={color === value}
            onClick={() => change({ color: color === value ? "" : value })}
          >
            <i className={css.swatchColor} style={{ background: value }} />
          </button>
        ))}
      </fieldset>
      <Field
        label="Custom colour"
        hint="As a code, such as #1f6feb."
        error={color && !isColor(color) ? "A colour is like #1f6feb: a # and six digits or letters a to f." : null}
      >
        <input
          value={color}
          onChange={(event) => change({ color: event.target.value })}
          autoComplete="off"
          spellCheck={false}
        />
      </Field>
      <fieldset className={css.swatches}>
        <legend className="visually-hidden">Icons</legend>
        {ICONS.map((choice) => (
          <button
            key={choice}
            type="button"
            className={css.swatch}
            aria-label={`Icon ${choice}`}
            aria-pressed={icon === choice}
            onClick={() => change({ icon: icon === choice ? "" : choice })}
          >
            {choice}
          </button>
        ))}
      </fieldset>
      <Field label="Custom icon" hint="One letter or emoji; empty: the first letter of its name.">
        <input value={icon} onChange={(event) => change({ icon: event.target.value })} autoComplete="off" />
      </Field>
    </fieldset>
  );
}
