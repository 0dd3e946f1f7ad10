// The facts that an agent remembers about the user: its core memories and its journal.
import { useApp } from "../../app/context";
import { Failure, Loading } from "../../ui/states";
import { Entries } from "../agents/Entries";
import { AgentPicker, useAgent } from "./AgentPicker";

export function Facts() {
  const { user } = useApp();
  const { agent, names, choose, error, retry } = useAgent();
  if (!agent) return error ? <Failure error={error} retry={retry} /> : <Loading />;
  return (
    <>
      <div className="toolbar">
        <AgentPicker agent={agent} names={names} choose={choose} />
      </div>
      <Entries key={`${user}\n${agent}`} agent={agent} />
    </>
  );
}
