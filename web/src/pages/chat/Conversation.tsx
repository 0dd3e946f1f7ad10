// The messages of a conversation of any length: only visible messages are rendered and loaded. It starts at the end and
// stays there while an answer grows, unless the reader has scrolled.
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type ReactNode,
  useCallback,
  useEffect,
  useEffectEvent,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { get } from "../../api/client";
import type { Agent } from "../../api/index";
import { useLoad } from "../../api/load";
import { BEFORE, useArrive } from "../../ui/arrive";
import { Icon } from "../../ui/Icon";
import css from "./chat.module.css";
import { Message, type Results } from "./Message";
import type { Sent } from "./outbox";
import { extraRows, type Row } from "./rows";
import { SummaryMark } from "./Summary";
import { type Call, calls, dayOf, type Result, results } from "./said";
import type { Talk } from "./talk";
import { Growing, Mine, Outcome } from "./Unanswered";

const NEAR = 60; // pixels from the end that count as the end
const LOOK = 40; // a result is not looked for further away from its call

type Shown = { talk: Talk; agents: Map<string, Agent>; at: number; takeBack: (sent: Sent) => void };

export function Conversation({ talk, agents, at, takeBack }: Shown) {
  const box = useRef<HTMLElement>(null);
  const stay = useRef(at === 0);
  const before = useRef(0);
  const [away, setAway] = useState(false);
  const first = talk.session?.first_seq ?? 1;
  const stored = Math.max(0, talk.last - first + 1);
  const extra = extraRows(talk);
  const rowAt = (index: number): Row =>
    index < stored
      ? { type: "message", key: `message ${first + index}`, seq: first + index }
      : (extra[index - stored] as Row);
  const list = useVirtualizer({
    count: stored + extra.length,
    getScrollElement: () => box.current,
    estimateSize: () => 110,
    getItemKey: (index) => rowAt(index).key,
    overscan: 8,
  });
  const seen = list.getVirtualItems();
  const from = seen[0]?.index ?? 0;
  const to = seen.at(-1)?.index ?? 0;
  useEffect(() => {
    if (stored) talk.need(first + from, Math.min(first + to, talk.last));
  }, [talk, talk.version, from, to, first, stored]);
  const height = list.getTotalSize();
  useLayoutEffect(() => {
    if (stay.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [height, talk.version]);
  const known = BEFORE.filter((near) => talk.messages.has(at - near));
  useArrive(at >= first && at <= talk.last ? at : 0, known.length, () => {
    stay.current = false;
    list.scrollToIndex(at - first, { align: "center" });
  });
  const scrolled = () => {
    const node = box.current;
    if (!node) return;
    const left = node.scrollHeight - node.scrollTop - node.clientHeight;
    if (left < NEAR) stay.current = true;
    else if (node.scrollTop < before.current - 1) stay.current = false;
    before.current = node.scrollTop;
    setAway(left > 4 * NEAR && !stay.current);
  };
  const toEnd = () => {
    stay.current = true;
    list.scrollToIndex(stored + extra.length - 1, { align: "end" });
    setAway(false);
  };
  // Handle Home and End here: measuring rows on the way interrupts the browser's own scrolling.
  const keyed = (event: KeyboardEvent) => {
    if (event.target !== box.current || (event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    if (event.key === "End") return toEnd();
    stay.current = false;
    list.scrollToIndex(0);
  };
  // The same while nothing more was read, so that a message is not drawn again for each word of an answer.
  const results = useCallback<Results>((seq, call) => resultOf(talk, seq, call), [talk, talk.messages.size]);
  const explained = useExplained(talk);
  const newest = talk.sent.at(-1)?.key;
  const showEnd = useEffectEvent(toEnd);
  useEffect(() => {
    if (newest) showEnd(); // whoever sends a message wants to see it
  }, [newest]);
  return (
    <div className={css.conversation}>
      <section
        ref={box}
        className={css.messages}
        onScroll={scrolled}
        onKeyDown={keyed}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
        tabIndex={0}
        aria-label="Messages"
      >
        <ol style={{ height }}>
          {seen.map((row) => (
            <li
              key={row.key}
              className={css.row}
              ref={list.measureElement}
              data-index={row.index}
              aria-setsize={stored + extra.length}
              aria-posinset={row.index + 1}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <div className={css.column}>
                {shown(rowAt(row.index), talk, agents, at, takeBack, results, explained)}
              </div>
            </li>
          ))}
        </ol>
      </section>
      {away && (
        <button type="button" className={css.newest} onClick={toEnd}>
          <Icon name="down" /> Newest
        </button>
      )}
    </div>
  );
}

/** Whether Why can explain a message: imported ones belong to no turn. */
function useExplained(talk: Talk): (seq: number) => boolean {
  const turns = useLoad(
    (signal) => get("/api/turns", { query: { session: talk.id, user: talk.user, limit: 100 }, signal }),
    [talk, talk.last],
  );
  const { data = [], next = null } = turns.data ?? {};
  const oldest = data.at(-1)?.first_seq ?? 0;
  return (seq) => data.some((turn) => seq >= turn.first_seq && seq <= turn.last_seq) || (next !== null && seq < oldest);
}

function shown(
  row: Row,
  talk: Talk,
  agents: Map<string, Agent>,
  at: number,
  takeBack: (sent: Sent) => void,
  results: Results,
  explained: (seq: number) => boolean,
): ReactNode {
  if (row.type === "said") return <Mine sent={row.sent} />;
  if (row.type === "voice") return <Growing voice={row.voice} agent={agents.get(row.voice.agent)} />;
  if (row.type === "state") return <Outcome row={row} talk={talk} takeBack={takeBack} />;
  const message = talk.messages.get(row.seq);
  const summarized = talk.session?.summarizedCount === row.seq;
  if (!message && talk.gone(row.seq)) return summarized && <SummaryMark talk={talk} />;
  if (!message) return <p className={css.unread} aria-hidden="true" />;
  const previous = talk.messages.get(row.seq - 1);
  const day = dayOf(message.created_at);
  const newDay = row.seq === talk.session?.first_seq || (previous && dayOf(previous.created_at) !== day);
  return (
    <>
      {newDay && <p className={css.day}>{day}</p>}
      {!belongs(talk, row.seq) && (
        <Message
          message={message}
          agent={agents.get(message.author ?? talk.session?.agent ?? "")}
          results={results}
          marked={at === row.seq}
          explained={explained(row.seq)}
          goesOn={!newDay && goesOn(talk, row.seq)}
        />
      )}
      {summarized && <SummaryMark talk={talk} />}
    </>
  );
}

/** Whether a message is by the agent that used a tool just before it. */
function goesOn(talk: Talk, seq: number): boolean {
  const message = talk.messages.get(seq);
  let before = seq - 1;
  while (before > seq - LOOK && talk.messages.get(before)?.role === "tool") before--;
  const found = talk.messages.get(before);
  return message?.role === "assistant" && found?.role === "assistant" && found.author === message.author;
}

/** What a tool answered to a call of a message. */
function resultOf(talk: Talk, seq: number, call: Call): Result | undefined {
  for (let next = seq + 1; next <= Math.min(seq + LOOK, talk.last); next++) {
    const message = talk.messages.get(next);
    if (!message) continue;
    const found = results(message).find((result) => result.id === call.id);
    if (found) return found;
    if (message.role === "assistant" && calls(message).some((other) => other.id === call.id)) return undefined;
  }
  return undefined;
}

/** Whether a message is a tool's answer that is shown with its call. */
function belongs(talk: Talk, seq: number): boolean {
  const message = talk.messages.get(seq);
  if (message?.role !== "tool") return false;
  const ids = results(message).map((result) => result.id);
  for (let before = seq - 1; before >= Math.max(1, seq - LOOK); before--) {
    const found = talk.messages.get(before);
    if (found && calls(found).some((call) => ids.includes(call.id))) return true;
  }
  return false;
}
