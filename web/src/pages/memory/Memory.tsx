import { Empty } from "../../ui/states";

export default function Memory() {
  return <Empty title="Memory" />;
}
