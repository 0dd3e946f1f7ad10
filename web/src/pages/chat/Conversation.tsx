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
import { Icon } from "../../ui/Icon";
import { OFFSETS_BEFORE, useScrollToRow } from "../../ui/scrollToRow";
import css from "./chat.module.css";
import { type Call, calls, dayOf, isAnswer, type Result, results } from "./content";
import { LearnedFacts } from "./LearnedFacts";
import { type LearnedFrom, learnedBefore, useLearned } from "./learned";
import { Message, type Results } from "./Message";
import type { OutgoingMessage } from "./outbox";
import { extraRows, type Row } from "./rows";
import { SummaryMark } from "./Summary";
import type { Talk } from "./talk";
import { Growing, Outcome, OutgoingBubble } from "./Unanswered";

const END_PIXELS = 60; // pixels from the end that count as the end
const RESULT_DISTANCE = 40; // the maximum distance between a tool call and its result

type Props = { talk: Talk; agents: Map<string, Agent>; at: number; takeBack: (outgoing: OutgoingMessage) => void };

export function Conversation({ talk, agents, at, takeBack }: Props) {
  const box = useRef<HTMLElement>(null);
  const stay = useRef(at === 0);
  const previous = useRef(0);
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
  const visible = list.getVirtualItems();
  const from = visible[0]?.index ?? 0;
  const to = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (stored) talk.need(first + from, Math.min(first + to, talk.last));
  }, [talk, talk.version, from, to, first, stored]);
  const height = list.getTotalSize();
  useLayoutEffect(() => {
    if (stay.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [height, talk.version]);
  const loaded = OFFSETS_BEFORE.filter((near) => talk.messages.has(at - near));
  useScrollToRow(at >= first && at <= talk.last ? at : 0, loaded.length, () => {
    stay.current = false;
    list.scrollToIndex(at - first, { align: "center" });
  });
  const scrolled = () => {
    const node = box.current;
    if (!node) return;
    const distance = node.scrollHeight - node.scrollTop - node.clientHeight;
    if (distance < END_PIXELS) stay.current = true;
    else if (node.scrollTop < previous.current - 1) stay.current = false;
    previous.current = node.scrollTop;
    setAway(distance > 4 * END_PIXELS && !stay.current);
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
  // Stable while no message is loaded, so that messages are not rendered for each word of an answer.
  const results = useCallback<Results>((seq, call) => resultOf(talk, seq, call), [talk, talk.messages.size]);
  const explained = useExplained(talk);
  const learned = useLearned(talk);
  const newest = talk.outbox.at(-1)?.key;
  const showEnd = useEffectEvent(toEnd);
  useEffect(() => {
    if (newest) showEnd(); // show the message that was just sent
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
          {visible.map((row) => (
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
                {shown(rowAt(row.index), talk, agents, at, takeBack, results, explained, learned)}
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

/** True if Why can explain a message: imported messages belong to no turn. */
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
  takeBack: (outgoing: OutgoingMessage) => void,
  results: Results,
  explained: (seq: number) => boolean,
  learned: LearnedFrom,
): ReactNode {
  if (row.type === "said") return <OutgoingBubble outgoing={row.outgoing} />;
  if (row.type === "voice") return <Growing voice={row.voice} agent={agents.get(row.voice.agent)} />;
  if (row.type === "state") return <Outcome row={row} talk={talk} takeBack={takeBack} />;
  const message = talk.messages.get(row.seq);
  const summarized = talk.session?.summarizedCount === row.seq;
  if (!message && talk.isRemoved(row.seq)) return summarized && <SummaryMark talk={talk} />;
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
          continued={!newDay && isContinued(talk, row.seq)}
        />
      )}
      {isAnswer(message) && <LearnedFacts facts={learnedBefore(talk, row.seq, learned)} />}
      {summarized && <SummaryMark talk={talk} />}
    </>
  );
}

/** True if a message continues the same agent's tool call before it. */
function isContinued(talk: Talk, seq: number): boolean {
  const message = talk.messages.get(seq);
  let previous = seq - 1;
  while (previous > seq - RESULT_DISTANCE && talk.messages.get(previous)?.role === "tool") previous--;
  const candidate = talk.messages.get(previous);
  return message?.role === "assistant" && candidate?.role === "assistant" && candidate.author === message.author;
}

/** The result of a tool call of a message. */
function resultOf(talk: Talk, seq: number, call: Call): Result | undefined {
  for (let next = seq + 1; next <= Math.min(seq + RESULT_DISTANCE, talk.last); next++) {
    const message = talk.messages.get(next);
    if (!message) continue;
    const match = results(message).find((result) => result.id === call.id);
    if (match) return match;
    if (message.role === "assistant" && calls(message).some((other) => other.id === call.id)) return undefined;
  }
  return undefined;
}

/** True if a message is a tool result that is shown with its call. */
function belongs(talk: Talk, seq: number): boolean {
  const message = talk.messages.get(seq);
  if (message?.role !== "tool") return false;
  const ids = results(message).map((result) => result.id);
  for (let previous = seq - 1; previous >= Math.max(1, seq - RESULT_DISTANCE); previous--) {
    const caller = talk.messages.get(previous);
    if (caller && calls(caller).some((call) => ids.includes(call.id))) return true;
  }
  return false;
}
