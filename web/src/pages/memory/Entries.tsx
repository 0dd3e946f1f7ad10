// The entries of an agent about the user: its core memories and its journal.
import { useApp } from "../../app/context";
import { Failure, Loading } from "../../ui/states";
import { Entries as AgentEntries } from "../agents/Entries";
import { AgentPicker, useAgent } from "./AgentPicker";

export function Entries() {
  const { user } = useApp();
  const { agent, names, choose, error, retry } = useAgent();
  if (!agent) return error ? <Failure error={error} retry={retry} /> : <Loading />;
  return (
    <>
      <div className="toolbar">
        <AgentPicker agent={agent} names={names} choose={choose} />
      </div>
      <AgentEntries key={`${user}\n${agent}`} agent={agent} />
    </>
  );
}
