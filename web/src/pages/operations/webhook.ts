// The requests of webhooks that must not be repeated, and the names of the kinds of events.
import { address, fetchSignedIn } from "../../api/client";
import type { TestResult, WebhooksAddRequest } from "../../api/index";

export type EventKind = NonNullable<WebhooksAddRequest["kinds"]>[number];
export const KINDS: Record<EventKind, string> = {
  agents: "Agents",
  sessions: "Conversations",
  messages: "Messages",
  summaries: "Summaries",
  facts: "Facts",
  entries: "Entries",
  consolidations: "Consolidations",
  notes: "Notes",
  refs: "References",
  state: "State",
  documents: "Documents",
  items: "Items",
  graph: "Graph",
  interactions: "Model calls",
  turns: "Turns",
  checkpoints: "Checkpoints",
  users: "Users",
  import: "Imports",
};

/** The kinds as the form names them; a kind of a newer server keeps its own name. */
export const kindNames = (kinds: readonly string[]) =>
  kinds.map((kind) => (Object.hasOwn(KINDS, kind) ? KINDS[kind as EventKind] : kind)).join(", ");

/** True if two lists contain the same kinds, in any order. */
export const areSameKinds = (kinds: readonly string[], others: readonly string[]) =>
  kinds.length === others.length && kinds.every((kind) => others.includes(kind));

/** Create a webhook and return its secret, which the server sends only once. */
export async function createWebhook(body: WebhooksAddRequest): Promise<string> {
  const { secret } = await postOnce("/api/webhooks", body);
  return secret;
}

/** Send a test event to a webhook. */
export const testWebhook = (id: string): Promise<TestResult> => postOnce(address("/api/webhooks/{id}/test", { id }));

/** Send the events again that a webhook did not accept, and return their number. */
export async function replayWebhook(id: string): Promise<number> {
  const { events } = await postOnce(address("/api/webhooks/{id}/replay", { id }));
  return events;
}

/** Post without retries: the server does not recognize a repeated request, and would do it twice. */
async function postOnce(url: string, body?: object) {
  const init: RequestInit = { method: "POST" };
  if (body) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  const response = await fetchSignedIn(url, init);
  return response.json();
}
