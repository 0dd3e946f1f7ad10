// Calls verbs for the test in Python that compares every verb with the library: one JSON line in, one out.
import { createInterface } from "node:readline";
import { Memorist, MemoristError } from "memorist-client";

const [url = "", user, agent] = process.argv.slice(2);
const scope = new Memorist({ url }).scope({ user, agent });

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, verb, positional, options } = JSON.parse(line);
  // biome-ignore lint/suspicious/noExplicitAny: the names come from the test
  const target = (kind ? scope[kind as "messages"] : scope) as any;
  let answer: unknown;
  try {
    const result = await target[verb](...positional, options);
    answer = { result: result instanceof Uint8Array ? new TextDecoder().decode(result) : result };
  } catch (error) {
    answer = { error: error instanceof MemoristError ? `${error.code}: ${error.detail}` : String(error) };
  }
  console.log(JSON.stringify(answer));
}
