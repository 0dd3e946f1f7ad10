// The facts that an agent remembers about the user: its core memories and its journal.
import { useWho } from "../../app/who";
import { Failure, Loading } from "../../ui/states";
import { Entries } from "../agents/Entries";
import { AgentPicker, useAgent } from "./AgentPicker";

export function Facts() {
  const { user } = useWho();
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
