import { Empty } from "../../ui/states";

export default function Operations() {
  return <Empty title="Operations" />;
}
