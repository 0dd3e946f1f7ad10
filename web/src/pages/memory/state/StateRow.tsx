// One state key: its value, folded if it is large, and its remaining lifetime.
import { useEffect, useEffectEvent, useMemo } from "react";
import type { Item } from "../../../api/index";
import { Icon } from "../../../ui/Icon";
import { Time, useNow } from "../../../ui/time";
import css from "../memory.module.css";
import { exact, pretty, short, timeLeft } from "./value";

type Props = { item: Item; skew: number; over: () => void; edit?: () => void; remove?: () => void };

export function StateRow({ item, skew, over, edit, remove }: Props) {
  const editable = useMemo(() => exact(item.value), [item]);
  return (
    <div className={css.row}>
      <div className={css.what}>
        <h3>{item.key}</h3>
        <Value value={item.value} />
        <p className="quiet">
          Version {item.version} · set <Time at={item.updated_at} />
          {!editable && " · contains a number that a browser would round: edit it with the API"}
        </p>
      </div>
      <div className={css.deeds}>
        {item.expires_at && <Countdown ends={item.expires_at} skew={skew} over={over} />}
        {edit && editable && (
          <button type="button" className="icon" aria-label={`Edit ${item.key}`} title="Edit" onClick={edit}>
            <Icon name="edit" />
          </button>
        )}
        {remove && (
          <button type="button" className="icon" aria-label={`Remove ${item.key}`} title="Remove" onClick={remove}>
            <Icon name="remove" />
          </button>
        )}
      </div>
    </div>
  );
}

function Value({ value }: { value: unknown }) {
  const line = useMemo(() => short(value), [value]);
  if (line !== null) return <code className={css.value}>{line}</code>;
  return (
    <details>
      <summary>{summary(value)}</summary>
      <pre>{pretty(value)}</pre>
    </details>
  );
}

function summary(value: unknown): string {
  if (Array.isArray(value)) return `A list of ${value.length}`;
  if (typeof value === "string") return `Text of ${value.length} characters`;
  return `An object with ${Object.keys(value as object).length} fields`;
}

const FADE = 400;

/** A countdown; at the end the row fades and disappears. */
function Countdown({ ends, skew, over }: { ends: string; skew: number; over: () => void }) {
  const now = useNow(1);
  const rest = (Date.parse(ends) - now - skew) / 1000;
  const hasExpired = rest <= 0;
  const finish = useEffectEvent(over);
  useEffect(() => {
    if (!hasExpired) return;
    const timer = setTimeout(() => finish(), FADE);
    return () => clearTimeout(timer);
  }, [hasExpired]);
  return (
    <span className={`chip ${rest < 60 ? "warn" : ""} ${hasExpired ? css.ended : ""}`} title={`At ${ends}`}>
      {hasExpired ? "expired" : `expires in ${timeLeft(rest)}`}
    </span>
  );
}
