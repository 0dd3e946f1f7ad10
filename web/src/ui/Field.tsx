// A form field: label, hint and error, linked for screen readers.
import { cloneElement, type ReactElement, useId } from "react";

type Shown = {
  label: string;
  hint?: string;
  wrong?: string | null;
  children: ReactElement<{ id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean }>;
};

export function Field({ label, hint, wrong, children }: Shown) {
  const id = useId();
  const said = hint || wrong ? `${id}-said` : undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, { id, "aria-describedby": said, "aria-invalid": wrong ? true : undefined })}
      {said && (
        <p id={said} className={wrong ? "wrong" : "quiet"} role={wrong ? "alert" : undefined}>
          {wrong || hint}
        </p>
      )}
    </div>
  );
}
