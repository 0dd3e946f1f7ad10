// Everything that is stored besides conversations: facts, entries, notes, references, documents and state, each a tab.
import { to, useRoute } from "../../app/route";
import { Link } from "../../ui/Link";
import { Empty } from "../../ui/states";
import { Tabs } from "../../ui/Tabs";
import { useTitle } from "../../ui/title";
import agents from "../agents/agents.module.css";
import { Documents } from "./documents/Documents";
import { Entries } from "./Entries";
import { Facts } from "./facts/Facts";
import css from "./memory.module.css";
import { Notes } from "./notes/Notes";
import { Refs } from "./refs/Refs";
import { State } from "./state/State";

const TABS = {
  facts: { label: "Facts", shows: Facts },
  entries: { label: "Entries", shows: Entries },
  notes: { label: "Notes", shows: Notes },
  refs: { label: "References", shows: Refs },
  documents: { label: "Documents", shows: Documents },
  state: { label: "State", shows: State },
};

export default function Memory() {
  const { parts, query } = useRoute();
  const tabName = parts[1] ?? "facts";
  const tab = TABS[tabName as keyof typeof TABS];
  useTitle(tab?.label ?? "Memory");
  const TabContent = tab?.shows;
  return (
    <div className={tabName === "entries" ? `page ${css.memory} ${agents.fills}` : `page ${css.memory}`}>
      <header>
        <h1>Memory</h1>
      </header>
      <Tabs
        label="Kinds of memory"
        tabs={Object.entries(TABS).map(([name, { label }]) => ({
          href: to(["memory", name], { agent: query.get("agent") ?? undefined }),
          label,
          current: name === tabName,
        }))}
      />
      {TabContent ? <TabContent /> : <TabNotFound />}
    </div>
  );
}

function TabNotFound() {
  return (
    <Empty title="Unknown kind of memory">
      <p>
        <Link href="/memory/facts">Go to the facts</Link>
      </p>
    </Empty>
  );
}
