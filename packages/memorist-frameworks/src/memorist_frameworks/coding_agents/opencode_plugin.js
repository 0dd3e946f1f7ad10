// Written by `memorist install opencode`; `memorist uninstall opencode` removes it.
// Recalls memories for each prompt, and saves the conversation when OpenCode is idle or compacts it.
import { spawn } from "node:child_process"

const COMMAND = ["memorist"]

// Run `memorist hook opencode EVENT`. Never throws: without an answer, nothing is added.
function hook(event, payload, limit) {
  return new Promise((resolve) => {
    let output = ""
    const [program, ...options] = COMMAND
    const child = spawn(program, ["hook", "opencode", event, ...options], {
      cwd: payload.cwd,
      stdio: ["pipe", "pipe", "ignore"],
    })
    const timer = setTimeout(() => child.kill(), limit)
    const finish = () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(output).additionalContext ?? "")
      } catch {
        resolve("")
      }
    }
    child.on("error", finish)
    child.on("close", finish)
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => (output += data))
    child.stdin.end(JSON.stringify(payload))
  })
}

function plainText(parts) {
  return parts
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")
}

export const MemoristPlugin = async ({ client, directory }) => {
  const known = new Map() // session → memories from its start, and about its newest prompt

  async function save(session) {
    try {
      const { data } = await client.session.messages({ path: { id: session } })
      const messages = (data ?? []).map(({ info, parts }) => ({
        id: info.id,
        role: info.role,
        time: info.time?.created,
        text: plainText(parts),
      }))
      await hook("save", { session_id: session, cwd: directory, messages }, 27000)
    } catch {
      // The memory must never disturb the session.
    }
  }

  return {
    event: async ({ event }) => {
      if (event.type === "session.idle") await save(event.properties.sessionID)
      if (event.type === "session.compacted") known.delete(event.properties.sessionID)
    },
    "experimental.session.compacting": async (input) => save(input.sessionID),
    "chat.message": async (input, output) => {
      const session = input.sessionID
      const payload = { session_id: session, cwd: directory }
      if (!known.has(session)) known.set(session, { start: await hook("start", payload, 10000) })
      const prompt = plainText(output.parts)
      known.get(session).recalled = prompt && (await hook("prompt", { ...payload, prompt }, 6000))
    },
    "experimental.chat.system.transform": async (input, output) => {
      const { start, recalled } = known.get(input.sessionID) ?? {}
      for (const text of [start, recalled]) if (text) output.system.push(text)
    },
  }
}
