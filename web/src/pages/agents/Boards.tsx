// The whiteboards of an agent, with their members and lines.
import { useState } from "react";
import { get } from "../../api/client";
import { useLoad } from "../../api/load";
import { go, useRoute } from "../../app/route";
import { useWho } from "../../app/who";
import { Icon } from "../../ui/Icon";
import { Segments } from "../../ui/Segments";
import { Empty, Failure, Loading } from "../../ui/states";
import { AsSeen } from "./AsSeen";
import { Board } from "./Board";
import { place } from "./places";
import { Share } from "./Share";

export function Boards({ agent }: { agent: string }) {
  const { user, may } = useWho();
  const { query } = useRoute();
  const [making, setMaking] = useState(false);
  const [round, setRound] = useState(0);
  const scope = { user, agent };
  const boards = useLoad((signal) => get("/api/entries/boards", { query: scope, signal }), [user, agent]);
  const names = Object.keys(boards.data ?? {}).sort();
  const at = names.find((name) => name === query.get("board")) ?? names[0];
  const goTo = (board: string) => go(place(agent, "whiteboard", { board }), true);
  if (!boards.data) return boards.error ? <Failure error={boards.error} retry={boards.reload} /> : <Loading />;
  return (
    <>
      <div className="toolbar">
        {names.length > 0 && (
          <Segments label="Boards" choices={names.map((name) => [name, name])} chosen={at} choose={goTo} />
        )}
        {may("write") && (
          <button type="button" onClick={() => setMaking(true)}>
            <Icon name="plus" /> New board
          </button>
        )}
      </div>
      {boards.error ? <Failure error={boards.error} retry={boards.reload} /> : null}
      {at === undefined ? (
        <Empty title={`${agent} shares no whiteboard`}>
          <p>
            A whiteboard is seen by the agents that share it, and by nobody else. Each writes on it and reads what the
            others wrote. Make one, and choose who is on it.
          </p>
        </Empty>
      ) : (
        <>
          <Board
            key={at}
            agent={agent}
            board={at}
            members={boards.data[at] ?? []}
            shared={boards.reload}
            changed={() => setRound((before) => before + 1)}
          />
          <AsSeen scope={scope} path="/api/entries/whiteboard" label="As the agent sees it" round={round} />
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
