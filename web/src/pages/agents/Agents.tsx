// Agents: the list, the page for a new agent, and the pages of each agent.
import { useRoute } from "../../app/route";
import { AgentList } from "./AgentList";
import { AgentPage } from "./AgentPage";
import { NewAgent } from "./NewAgent";
import { found } from "./places";

export default function Agents() {
  const at = found(useRoute().parts);
  if (at.page === "list") return <AgentList />;
  if (at.page === "new") return <NewAgent />;
  return <AgentPage name={at.name} tab={at.tab} />;
}
