import { Empty } from "../../ui/states";

export default function Chat() {
  return <Empty title="Chat" />;
}
