import { afterEach, expect, test, vi } from "vitest";
import { fitting, type OutgoingMessage, removeMessages, saveMessage, waiting } from "./outbox";

const message = (more: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  key: "k",
  session: "s",
  agents: ["a"],
  text: "Hello",
  images: [],
  at: "2026-01-01T00:00:00Z",
  state: "sending",
  ...more,
});
/** A fake storage with a limit of characters per key. */
function storage(limit: number) {
  const stored = new Map<string, string>();
  return {
    getItem: (name: string) => stored.get(name) ?? null,
    removeItem: (name: string) => stored.delete(name),
    setItem: (name: string, value: string) => {
      if (value.length > limit) throw new DOMException("full", "QuotaExceededError");
      stored.set(name, value);
    },
  };
}
afterEach(() => vi.unstubAllGlobals());

test("waiting messages are separate for each user", () => {
  vi.stubGlobal("localStorage", storage(10_000));
  saveMessage("ada", message({ text: "ada's secret" }));
  saveMessage("bob", message({ key: "b" }));
  expect(localStorage.getItem("chatOutbox_bob")).not.toContain("secret");
  removeMessages("ada", () => true);
  removeMessages("bob", (item) => item.key === "b");
  expect([localStorage.getItem("chatOutbox_ada"), localStorage.getItem("chatOutbox_bob")]).toEqual([null, null]);
  saveMessage("ada", message());
  localStorage.removeItem("chatOutbox_ada"); // another window removed it
  expect(waiting("ada", "s")).toEqual([]);
});

test("images that do not fit into storage stay in memory", () => {
  vi.stubGlobal("localStorage", storage(400));
  saveMessage("ada", message());
  saveMessage("ada", message({ key: "long", text: "x".repeat(500) }));
  expect(waiting("ada", "s").map((item) => item.key)).toEqual(["k", "long"]);
  expect(waiting("bob", "s")).toEqual([]);
  removeMessages("ada", (item) => item.key === "long");
  expect(JSON.parse(localStorage.getItem("chatOutbox_ada") ?? "[]")).toHaveLength(1);
  removeMessages("ada", (item) => item.session === "s");
  expect(waiting("ada", "s")).toEqual([]);
});

test("a waiting message stays until it is removed, also without storage", () => {
  saveMessage("ada", message());
  saveMessage("ada", message({ key: "other", session: "t" }));
  expect(waiting("ada", "s").map((item) => item.key)).toEqual(["k"]);
  saveMessage("ada", message({ state: "failed", why: "no model" }));
  expect(waiting("ada", "s")[0]?.state).toBe("failed");
  removeMessages("ada", (item) => item.key === "k");
  expect(waiting("ada", "s")).toEqual([]);
});

test("text is always stored; images as far as they fit", () => {
  const list = [message({ images: ["12345"] }), message({ key: "l", images: ["1234567"], text: "Long" })];
  expect(fitting(list, 10).map((item) => [item.text, item.images.length, item.lostImages])).toEqual([
    ["Hello", 1, undefined],
    ["Long", 0, 1],
  ]);
});
