// One reference in the list: description, source and size.
import type { Ref } from "../../../api/index";
import { Icon } from "../../../ui/Icon";
import { Link } from "../../../ui/Link";
import { bytes, count, Time } from "../../../ui/time";
import css from "../memory.module.css";
import { usePageState } from "../pageState";

type Props = { of: Ref; selected: boolean; select?: (on: boolean) => void; edit?: () => void; remove?: () => void };

export function RefRow({ of, selected, select, edit, remove }: Props) {
  const { href } = usePageState();
  return (
    <div className={css.row}>
      {select && (
        <input
          type="checkbox"
          aria-label={`Select ${of.key}`}
          checked={selected}
          onChange={(event) => select(event.target.checked)}
        />
      )}
      <div className={css.what}>
        <h3>
          <Link className={css.opens} href={href({ ref: of.key })}>
            {of.summary || of.key}
          </Link>
        </h3>
        <p className="quiet">
          <code>{of.key}</code>
        </p>
        <p className="quiet">
          {of.type.replaceAll("_", " ")} · {bytes(of.bytes)} · {count(of.tokens)} tokens
          {of.agent && <> · {of.agent}</>}
          {of.session && (
            <>
              {" "}
              · <Link href={href({ session: of.session })}>its conversation</Link>
            </>
          )}{" "}
          · <Time at={of.created_at} />
        </p>
      </div>
      <div className={css.deeds}>
        {!of.is_active && <span className="chip">not active</span>}
        {edit && (
          <button type="button" className="icon" aria-label={`Edit ${of.key}`} title="Edit" onClick={edit}>
            <Icon name="edit" />
          </button>
        )}
        {remove && (
          <button type="button" className="icon" aria-label={`Remove ${of.key}`} title="Remove" onClick={remove}>
            <Icon name="remove" />
          </button>
        )}
      </div>
    </div>
  );
}
