import { Empty } from "../../ui/states";

export default function Agents() {
  return <Empty title="Agents" />;
}
