// Clients of other makers do a round trip: node clients.mjs PACKAGES CLIENT TRANSPORT [arguments]
//   CLIENT is ai-sdk or official; TRANSPORT is http ADDRESS HEADERS(JSON), or stdio COMMAND...
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, client, transport, ...rest] = process.argv.slice(2);
const found = createRequire(join(packages, "package.json"));
const load = (name) => import(pathToFileURL(found.resolve(name)));

async function aiSdk() {
  const { createMCPClient } = await load("@ai-sdk/mcp");
  if (transport === "http") {
    return createMCPClient({ transport: { type: "http", url: rest[0], headers: JSON.parse(rest[1]) } });
  }
  const { Experimental_StdioMCPTransport, StdioMCPTransport } = await load("@ai-sdk/mcp/mcp-stdio");
  const Stdio = StdioMCPTransport ?? Experimental_StdioMCPTransport;
  return createMCPClient({ transport: new Stdio({ command: rest[0], args: rest.slice(1) }) });
}

async function official() {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const made = new Client({ name: "round-trip", version: "1" });
  if (transport === "http") {
    const requestInit = { headers: JSON.parse(rest[1]) };
    await made.connect(new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit }));
    return made;
  }
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  await made.connect(new StdioClientTransport({ command: rest[0], args: rest.slice(1) }));
  return made;
}

const speaking = await (client === "ai-sdk" ? aiSdk() : official());
const call = async (name, args) => {
  const result = await speaking.callTool({ name, arguments: args });
  return result.isError ? { error: result.content[0].text } : result.structuredContent;
};
const { tools } = await speaking.listTools();
const saved = await call("save_to_core", { content: `The ${client} client was here, over ${transport}.` });
const searched = await call("search_memory", { query: `Was the ${client} client here?` });
const refused = await call("save_to_core", { content: " " });
const { resources } = await speaking.listResources();
const notes = await speaking.readResource({ uri: "memorist://notes/ada/scout" });
const { prompts } = await speaking.listPrompts();
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    saved,
    searched: searched.results.map((one) => one.text),
    refused,
    resources: resources.map((one) => one.uri),
    notes: notes.contents[0].text,
    prompts: prompts.map((prompt) => prompt.name),
  }),
);
await speaking.close();
