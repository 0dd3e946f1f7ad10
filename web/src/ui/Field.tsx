// A form field: label, hint and error, linked for screen readers.
import { cloneElement, type ReactElement, useId } from "react";

type Props = {
  label: string;
  hint?: string;
  error?: string | null;
  children: ReactElement<{ id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean }>;
};

export function Field({ label, hint, error, children }: Props) {
  const id = useId();
  const descriptionId = hint || error ? `${id}-said` : undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, { id, "aria-describedby": descriptionId, "aria-invalid": error ? true : undefined })}
      {descriptionId && (
        <p id={descriptionId} className={error ? "wrong" : "quiet"} role={error ? "alert" : undefined}>
          {error || hint}
        </p>
      )}
    </div>
  );
}
