// Vercel AI SDK: middleware that gives any model a memory. Run it against a server: MEMORIST_URL=… node examples/ai-sdk.ts
import { generateText, type LanguageModelMiddleware, streamText, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { type ContextAnswer, Memorist, type Scope } from "memorist-client";

/** Before a call, add what the session remembers; after it, save the turn. */
export function memory(scope: Scope, session: string): LanguageModelMiddleware {
  const turns = new WeakMap<object, { question: string; context: ContextAnswer }>();

  async function save(params: object, answer: string): Promise<void> {
    const turn = turns.get(params);
    if (!turn || !answer) return; // a step between tool calls
    const messages = [
      { role: "user" as const, content: turn.question },
      { role: "assistant" as const, content: answer },
    ];
    await scope.saveTurn(session, messages, { report: turn.context.report });
  }

  return {
    specificationVersion: "v4",
    async transformParams({ params }) {
      const last = params.prompt.at(-1);
      if (last?.role !== "user") return params;
      const question = last.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
      const context = await scope.context(session, question, { text: true });
      const remembered = { role: "system" as const, content: context.text ?? "" };
      const result = { ...params, prompt: [remembered, ...params.prompt] };
      turns.set(result, { question, context });
      return result;
    },
    async wrapGenerate({ doGenerate, params }) {
      const result = await doGenerate();
      await save(params, result.content.map((part) => (part.type === "text" ? part.text : "")).join(""));
      return result;
    },
    async wrapStream({ doStream, params }) {
      const { stream, ...rest } = await doStream();
      let answer = "";
      const recording = new TransformStream({
        transform(part, controller) {
          if (part.type === "text-delta") answer += part.delta;
          controller.enqueue(part);
        },
        flush: () => save(params, answer),
      });
      return { stream: stream.pipeThrough(recording), ...rest };
    },
  };
}

const usage = {
  inputTokens: { total: 9, noCache: 9, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 3, text: 3, reasoning: 0 },
};
const finishReason = { unified: "stop" as const, raw: undefined };

/** A test model that answers with what it received about Lisbon. */
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => ({
    content: [{ type: "text", text: JSON.stringify(prompt).includes("Lisbon") ? "Lisbon." : "I do not know." }],
    finishReason,
    usage,
    warnings: [],
  }),
  doStream: async () => ({
    stream: new ReadableStream({
      start(controller) {
        controller.enqueue({ type: "text-start", id: "1" });
        controller.enqueue({ type: "text-delta", id: "1", delta: "Nice, " });
        controller.enqueue({ type: "text-delta", id: "1", delta: "Lisbon!" });
        controller.enqueue({ type: "text-end", id: "1" });
        controller.enqueue({ type: "finish", finishReason, usage });
        controller.close();
      },
    }),
  }),
});

const me = new Memorist({ url: process.env.MEMORIST_URL ?? "http://127.0.0.1:7700" }).scope({
  user: "ada",
  agent: "scout",
});
const session = await me.sessions.resume();
const remembering = wrapLanguageModel({ model, middleware: memory(me, session.id) });

for await (const text of streamText({ model: remembering, prompt: "My sister moved to Lisbon." }).textStream) {
  process.stdout.write(text);
}
const { text } = await generateText({ model: remembering, prompt: "Where does my sister live?" });
console.log(`\nremembered: ${text}`);
for await (const message of me.messages.list(session.id)) console.log(message.role, JSON.stringify(message.content));
