// The content of a stored message in its common formats: text, images, tool calls and their results.
import type { Message } from "../../api/index";

export type Call = { id: string; name: string; arguments: string };
export type Result = { id: string; text: string; ok: boolean };
export type Picture = { key: string; media: string };
type Part = Record<string, unknown>;

const parts = (message: Message): Part[] => {
  const list = (message.content as Part).parts;
  return Array.isArray(list) ? list.filter((part): part is Part => typeof part === "object" && part !== null) : [];
};
const isCall = (part: Part) => /^(tool[_-]calls?|tool_use|function_call)$/.test(String(part.type));
const isResult = (part: Part) => /^(tool[_-]result|tool[_-]return|function_call_output)$/.test(String(part.type));
const isPicture = (part: Part) => part.type === "reference" && String(part.media_type).startsWith("image/");

/** The text of a message, including text parts that its text does not contain. */
export function words(message: Message): string {
  const text = (message.content as Part).text;
  const texts = typeof text === "string" && text ? [text] : [];
  for (const part of parts(message)) {
    if (isCall(part) || isResult(part) || isPicture(part)) continue;
    if (typeof part.text === "string" && part.text && !texts.some((other) => other.includes(part.text as string)))
      texts.push(part.text);
  }
  return texts.join("\n\n");
}

/** The images of a message, which are stored as references. */
export const pictures = (message: Message): Picture[] =>
  parts(message)
    .filter(isPicture)
    .map((part) => ({ key: String(part.key), media: String(part.media_type) }));

/** The tool calls of a message. */
export function calls(message: Message): Call[] {
  if (message.role !== "assistant") return [];
  const listed = (message.content as Part).tool_calls;
  const toolCalls = [...parts(message).filter(isCall), ...(Array.isArray(listed) ? (listed as Part[]) : [])];
  return toolCalls.map((call) => {
    const inner = (typeof call.function === "object" && call.function ? call.function : call) as Part;
    const toolArguments = inner.arguments ?? inner.input ?? inner.args ?? "";
    const id = call.id ?? call.tool_call_id ?? call.call_id ?? "";
    return {
      id: String(id),
      name: String(inner.name ?? call.tool_name ?? "a tool"),
      arguments: typeof toolArguments === "string" ? toolArguments : JSON.stringify(toolArguments),
    };
  });
}

/** The tool results in a message. */
export function results(message: Message): Result[] {
  const toolResults = parts(message).filter(isResult);
  if (!toolResults.length && message.role === "tool") toolResults.push(message.content as Part);
  return toolResults.map((part) => {
    const output = part.text ?? part.content ?? part.output ?? part.result ?? "";
    const text = typeof output === "string" ? output : JSON.stringify(output);
    const id = part.tool_call_id ?? part.tool_use_id ?? part.call_id ?? part.id ?? "";
    return { id: String(id), text, ok: !/^\s*\{\s*"error"/.test(text) };
  });
}

/** True if a message is the final answer of a turn: it has no tool calls. */
export const isAnswer = (message: Message) => message.role === "assistant" && calls(message).length === 0;

/** The day of a timestamp as a label: "Today", "Yesterday" or the date. */
export function dayOf(at: string, now = new Date()): string {
  const day = new Date(at);
  const days = Math.round((midnight(now) - midnight(day)) / 86_400_000);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  const year = day.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return day.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year });
}
const midnight = (day: Date) => new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
export const clockOf = (at: string) => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
