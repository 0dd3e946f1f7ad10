import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Problem } from "../../api/client";
import { areSameKinds, createWebhook, kindNames, replayWebhook, testWebhook } from "./webhook";

const fetched = vi.fn();

beforeEach(() => {
  fetched.mockReset();
  fetched.mockImplementation(async () => new Response("", { status: 502 }));
  vi.stubGlobal("fetch", fetched);
});
afterEach(() => vi.unstubAllGlobals());

test.each([
  ["create", () => createWebhook({ url: "https://example.org" })],
  ["test", () => testWebhook("w")],
  ["replay", () => replayWebhook("w")],
])("%s is not retried, because it would happen twice", async (_, call) => {
  await expect(call()).rejects.toBeInstanceOf(Problem);
  expect(fetched).toHaveBeenCalledTimes(1);
});

test("a replay returns the number of events", async () => {
  fetched.mockResolvedValue(Response.json({ events: 3 }));
  expect(await replayWebhook("a/b")).toBe(3);
  expect(fetched).toHaveBeenCalledWith("/api/webhooks/a%2Fb/replay", expect.anything());
});

test("kinds have the names of the form", () => {
  expect(kindNames(["sessions", "documents"])).toBe("Conversations, Documents");
  expect(kindNames(["dreams", "constructor"])).toBe("dreams, constructor");
});

test("the order of kinds does not matter", () => {
  expect(areSameKinds(["facts", "state"], ["state", "facts"])).toBe(true);
  expect(areSameKinds(["facts"], ["state"])).toBe(false);
  expect(areSameKinds(["facts"], [])).toBe(false);
});
