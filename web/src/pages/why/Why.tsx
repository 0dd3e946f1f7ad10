import { Empty } from "../../ui/states";

export default function Why() {
  return <Empty title="Why" />;
}
