// Mastra: threads and messages of agents in memorist. Run it against a server: MEMORIST_URL=… node storage.ts
import { Agent } from "@mastra/core/agent";
import { type MastraDBMessage, MockMemory, type StorageThreadType } from "@mastra/core/memory";
import {
  type InMemoryStore,
  MastraCompositeStore,
  MemoryStorage,
  type StorageListMessagesInput,
  type StorageListThreadsInput,
} from "@mastra/core/storage";
import { Memorist, MemoristError, type Scope } from "memorist-client";

const THREADS = ["mastra", "threads"];
const MESSAGES = ["mastra", "messages"];

/** Stores each thread and each message as an item, which search finds too. */
class MemoristStorage extends MemoryStorage {
  override readonly supportsPartialThreadUpdate = true;
  readonly #scope: Scope;

  constructor(scope: Scope) {
    super();
    this.#scope = scope;
  }

  async getThreadById({ threadId }: { threadId: string }): Promise<StorageThreadType | null> {
    try {
      return revive((await this.#scope.items.get(THREADS, threadId)).value) as StorageThreadType;
    } catch (error) {
      if (error instanceof MemoristError && error.code === "not-found") return null;
      throw error;
    }
  }

  async saveThread({ thread }: { thread: StorageThreadType }): Promise<StorageThreadType> {
    await this.#scope.items.put(THREADS, thread.id, { ...thread });
    return thread;
  }

  async updateThread(change: { id: string; title?: string; metadata?: Record<string, unknown> }) {
    const thread = await this.getThreadById({ threadId: change.id });
    if (!thread) throw new Error(`There is no thread ${change.id}.`);
    return this.saveThread({ thread: { ...thread, ...change, updatedAt: new Date() } });
  }

  async deleteThread({ threadId }: { threadId: string }): Promise<void> {
    for await (const { key } of this.#scope.items.list([...MESSAGES, threadId])) {
      await this.#scope.items.remove([...MESSAGES, threadId], key);
    }
    await this.#scope.items.remove(THREADS, threadId);
  }

  async listThreads({ filter, page = 0, perPage = 100 }: StorageListThreadsInput) {
    const threads: StorageThreadType[] = [];
    const where = filter?.resourceId ? { resourceId: filter.resourceId } : undefined;
    for await (const item of this.#scope.items.list(THREADS, { where })) {
      threads.push(revive(item.value) as StorageThreadType);
    }
    const { records, ...info } = paged(threads, page, perPage);
    return { threads: records, ...info };
  }

  async saveMessages({ messages }: { messages: MastraDBMessage[] }) {
    for (const message of messages) {
      await this.#scope.items.put([...MESSAGES, message.threadId ?? ""], message.id, { ...message });
    }
    return { messages };
  }

  async listMessages({ threadId, page = 0, perPage = 40, orderBy }: StorageListMessagesInput) {
    const messages: MastraDBMessage[] = [];
    for (const id of [threadId].flat()) {
      for await (const item of this.#scope.items.list([...MESSAGES, id])) {
        messages.push(revive(item.value) as MastraDBMessage);
      }
    }
    const sign = orderBy?.direction === "DESC" ? -1 : 1;
    messages.sort((one, other) => sign * (one.createdAt.getTime() - other.createdAt.getTime()));
    const { records, ...info } = paged(messages, page, perPage);
    return { messages: records, ...info };
  }

  async listMessagesById({ messageIds }: { messageIds: string[] }) {
    const messages: MastraDBMessage[] = [];
    for (const id of messageIds) {
      const { data } = await this.#scope.items.list(MESSAGES, { where: { id } });
      messages.push(...data.map((item) => revive(item.value) as MastraDBMessage));
    }
    return { messages };
  }

  async updateMessages({ messages }: { messages: ({ id: string } & Partial<MastraDBMessage>)[] }) {
    const stored = await this.listMessagesById({ messageIds: messages.map((message) => message.id) });
    const changed = stored.messages.map((message) => {
      const change = messages.find(({ id }) => id === message.id);
      return { ...message, ...change, content: { ...message.content, ...change?.content } };
    });
    return (await this.saveMessages({ messages: changed })).messages;
  }

  async dangerouslyClearAll(): Promise<void> {
    for await (const { key } of this.#scope.items.list(THREADS)) await this.deleteThread({ threadId: key });
  }
}

/** Turn the times of a stored record into dates again. */
function revive(value: unknown): unknown {
  const record = { ...(value as Record<string, unknown>) };
  for (const name of ["createdAt", "updatedAt"]) {
    if (typeof record[name] === "string") record[name] = new Date(record[name]);
  }
  return record;
}

function paged<T>(records: T[], page: number, perPage: number | false) {
  const size = perPage === false ? records.length : perPage;
  const start = page * size;
  const part = records.slice(start, start + size);
  return { records: part, total: records.length, page, perPage, hasMore: start + size < records.length };
}

const me = new Memorist({ url: process.env.MEMORIST_URL ?? "http://127.0.0.1:7700" }).scope({ user: "ada" });
const storage = new MastraCompositeStore({ id: "memorist", domains: { memory: new MemoristStorage(me) } });

/** A test model that answers with what it received about Lisbon. */
const model = {
  specificationVersion: "v2" as const,
  provider: "test",
  modelId: "test",
  supportedUrls: {},
  async doGenerate({ prompt }: { prompt: unknown }) {
    const text = JSON.stringify(prompt).includes("Lisbon") ? "In Lisbon." : "I do not know.";
    return {
      content: [{ type: "text" as const, text }],
      finishReason: "stop" as const,
      usage: { inputTokens: 9, outputTokens: 3, totalTokens: 12 },
      warnings: [],
    };
  },
  async doStream(): Promise<never> {
    throw new Error("This model does not stream.");
  },
};
// In a program, this is the `Memory` of @mastra/memory.
const memory = new MockMemory({ storage: storage as unknown as InMemoryStore });
const agent = new Agent({ id: "scout", name: "scout", instructions: "Be brief.", model, memory });
const place = { memory: { thread: "trip", resource: "ada" } };

await agent.generate("My sister moved to Lisbon.", place);
const { text } = await agent.generate("Where does my sister live?", place);
console.log(`remembered: ${text}`);
const { data: hits } = await me.search("where did my sister move", { limit: 1 });
console.log(`found: ${hits[0]?.kind}`);
