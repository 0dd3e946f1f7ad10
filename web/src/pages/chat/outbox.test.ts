import { afterEach, expect, test, vi } from "vitest";
import { drop, fitting, put, type Sent, waiting } from "./outbox";

const sent = (more: Partial<Sent> = {}): Sent => ({
  key: "k",
  session: "s",
  agents: ["a"],
  text: "Hello",
  images: [],
  at: "2026-01-01T00:00:00Z",
  state: "sending",
  ...more,
});
/** What a browser keeps, up to so many characters for each name. */
function storage(most: number) {
  const there = new Map<string, string>();
  return {
    getItem: (name: string) => there.get(name) ?? null,
    removeItem: (name: string) => there.delete(name),
    setItem: (name: string, value: string) => {
      if (value.length > most) throw new DOMException("full", "QuotaExceededError");
      there.set(name, value);
    },
  };
}
afterEach(() => vi.unstubAllGlobals());

test("nobody has what another user waits for, in this page or in what it keeps", () => {
  vi.stubGlobal("localStorage", storage(10_000));
  put("ada", sent({ text: "ada's secret" }));
  put("bob", sent({ key: "b" }));
  expect(localStorage.getItem("chatOutbox_bob")).not.toContain("secret");
  drop("ada", () => true);
  drop("bob", (one) => one.key === "b");
  expect([localStorage.getItem("chatOutbox_ada"), localStorage.getItem("chatOutbox_bob")]).toEqual([null, null]);
  put("ada", sent());
  localStorage.removeItem("chatOutbox_ada"); // another window dropped it
  expect(waiting("ada", "s")).toEqual([]);
});

test("what does not fit is here for as long as the page is", () => {
  vi.stubGlobal("localStorage", storage(400));
  put("ada", sent());
  put("ada", sent({ key: "long", text: "x".repeat(500) }));
  expect(waiting("ada", "s").map((one) => one.key)).toEqual(["k", "long"]);
  expect(waiting("bob", "s")).toEqual([]);
  drop("ada", (one) => one.key === "long");
  expect(JSON.parse(localStorage.getItem("chatOutbox_ada") ?? "[]")).toHaveLength(1);
  drop("ada", (one) => one.session === "s");
  expect(waiting("ada", "s")).toEqual([]);
});

test("what waits is there until it is dropped, also where the browser keeps nothing", () => {
  put("ada", sent());
  put("ada", sent({ key: "other", session: "t" }));
  expect(waiting("ada", "s").map((one) => one.key)).toEqual(["k"]);
  put("ada", sent({ state: "failed", why: "no model" }));
  expect(waiting("ada", "s")[0]?.state).toBe("failed");
  drop("ada", (one) => one.key === "k");
  expect(waiting("ada", "s")).toEqual([]);
});

test("words are always kept; images as far as they fit", () => {
  const list = [sent({ images: ["12345"] }), sent({ key: "l", images: ["1234567"], text: "Long" })];
  expect(fitting(list, 10).map((one) => [one.text, one.images.length, one.lostImages])).toEqual([
    ["Hello", 1, undefined],
    ["Long", 0, 1],
  ]);
});
