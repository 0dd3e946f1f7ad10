// What is remembered apart from conversations: notes, state, references and knowledge, each a tab with an address.
import { useRoute } from "../../app/route";
import { Link } from "../../ui/Link";
import { Empty } from "../../ui/states";
import { Tabs } from "../../ui/Tabs";
import { useTitle } from "../../ui/title";
import { Knowledge } from "./knowledge/Knowledge";
import css from "./memory.module.css";
import { Notes } from "./notes/Notes";
import { Refs } from "./refs/Refs";
import { State } from "./state/State";

const TABS = {
  notes: { label: "Notes", shows: Notes },
  state: { label: "State", shows: State },
  refs: { label: "References", shows: Refs },
  knowledge: { label: "Knowledge", shows: Knowledge },
};

export default function Memory() {
  const { parts } = useRoute();
  const at = parts[1] ?? "notes";
  const tab = TABS[at as keyof typeof TABS];
  useTitle(tab?.label ?? "Memory");
  const Shown = tab?.shows;
  return (
    <div className={`page ${css.memory}`}>
      <header>
        <h1>Memory</h1>
      </header>
      <Tabs
        label="Kinds of memory"
        tabs={Object.entries(TABS).map(([name, { label }]) => ({ href: `/memory/${name}`, label, here: name === at }))}
      />
      {Shown ? <Shown /> : <Nowhere />}
    </div>
  );
}

function Nowhere() {
  return (
    <Empty title="Unknown kind of memory">
      <p>
        <Link href="/memory/notes">Go to the notes</Link>
      </p>
    </Empty>
  );
}
