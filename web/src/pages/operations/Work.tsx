// What is due and not done yet, for each kind of background work.
import type { Status } from "../../api/index";

export function Work({ status: _ }: { status: Status }) {
  return null;
}
