// What an editor shows: names of records and of parameters, not their fields.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const CODE = `import { Memorist } from "../dist/index.js";
const me = new Memorist({ url: "http://127.0.0.1:7700" }).scope();
const session = await me.sessions.resume();
const message = await me.messages.append(session.id, "user", "Hello");
const found = await me.search("Hello");
for await (const fact of me.facts.list()) console.log(fact);
`;

test("editors show named types", () => {
  const file = fileURLToPath(new URL("hovered.ts", import.meta.url));
  const read = (path: string) => (path === file ? CODE : existsSync(path) ? readFileSync(path, "utf8") : undefined);
  const service = ts.createLanguageService({
    getScriptFileNames: () => [file],
    getScriptVersion: () => "1",
    getScriptSnapshot: (path) => {
      const text = read(path);
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    },
    getCurrentDirectory: () => fileURLToPath(new URL("..", import.meta.url)),
    getCompilationSettings: () => ({
      strict: true,
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2022,
      lib: ["lib.es2023.d.ts", "lib.dom.d.ts"],
      types: [],
    }),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
  });
  assert.deepEqual(service.getSemanticDiagnostics(file), []);
  const hover = (text: string) =>
    ts.displayPartsToString(service.getQuickInfoAtPosition(file, CODE.indexOf(text))?.displayParts);
  assert.equal(hover("session ="), "const session: Session");
  assert.equal(hover("message ="), "const message: Message");
  assert.equal(hover("found ="), "const found: SearchResults");
  assert.equal(hover("fact of"), "const fact: Fact");
  assert.equal(
    hover("append("),
    '(method) Messages.append(session: string, role: "system" | "user" | "assistant" | "tool", ' +
      "content: MessagesAppendContent, options?: MessagesAppendOptions): Promise<Message>",
  );
  assert.equal(
    hover("search("),
    "(method) ScopeVerbs.search(query: string, options?: SearchOptions): Promise<SearchResults>",
  );
});
