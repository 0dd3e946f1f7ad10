// Agents: the list, the page for a new agent, and the pages of each agent.
import { useRoute } from "../../app/route";
import { AgentList } from "./AgentList";
import { AgentPage } from "./AgentPage";
import { NewAgent } from "./NewAgent";
import { pageOf } from "./places";

export default function Agents() {
  const page = pageOf(useRoute().parts);
  if (page.page === "list") return <AgentList />;
  if (page.page === "new") return <NewAgent />;
  return <AgentPage name={page.name} tab={page.tab} />;
}
