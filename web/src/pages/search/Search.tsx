import { Empty } from "../../ui/states";

export default function Search() {
  return <Empty title="Search" />;
}
