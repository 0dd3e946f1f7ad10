// The whiteboards of an agent, with their members and lines.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { useApp } from "../../app/context";
import { go, useRoute } from "../../app/route";
import { Icon } from "../../ui/Icon";
import { Segments } from "../../ui/Segments";
import { Empty, Failure, Loading } from "../../ui/states";
import { AgentView } from "./AgentView";
import { Board } from "./Board";
import { agentPath } from "./places";
import { Share } from "./Share";

export function Boards({ agent }: { agent: string }) {
  const { user, may } = useApp();
  const { query } = useRoute();
  const [making, setMaking] = useState(false);
  const [reloads, setReloads] = useState(0);
  const scope = { user, agent };
  const boards = useLoad((signal) => get("/api/entries/boards", { query: scope, signal }), [user, agent]);
  const names = Object.keys(boards.data ?? {}).sort();
  const selected = names.find((name) => name === query.get("board")) ?? names[0];
  const goTo = (board: string) => go(agentPath(agent, "whiteboard", { board }), true);
  if (!boards.data) return boards.error ? <Failure error={boards.error} retry={boards.reload} /> : <Loading />;
  return (
    <>
      <div className="toolbar">
        {names.length > 0 && (
          <Segments label="Boards" choices={names.map((name) => [name, name])} chosen={selected} choose={goTo} />
        )}
        {may("write") && (
          <button type="button" onClick={() => setMaking(true)}>
            <Icon name="plus" /> New board
          </button>
        )}
      </div>
      {boards.error ? <Failure error={boards.error} retry={boards.reload} /> : null}
      {selected === undefined ? (
        <Empty title={`${agent} shares no whiteboard`}>
          <p>
            Several agents can share a whiteboard: each of them reads it and writes on it. Other agents cannot see it.
            Create a board and choose the agents that share it.
          </p>
        </Empty>
      ) : (
        <>
          <Board
            key={selected}
            agent={agent}
            board={selected}
            members={boards.data[selected] ?? []}
            shared={boards.reload}
            changed={() => setReloads((previous) => previous + 1)}
          />
          <AgentView scope={scope} path="/api/entries/whiteboard" label="As the agent sees it" reloads={reloads} />
        </>
      )}
      {making && (
        <Share
          agent={agent}
          close={() => setMaking(false)}
          shared={(board) => {
            boards.reload();
            goTo(board);
          }}
        />
      )}
    </>
  );
}
