import { beforeAll, expect, test, vi } from "vitest";

let places: typeof import("./places");
beforeAll(async () => {
  vi.stubGlobal("window", { addEventListener: () => {} });
  places = await import("./places");
});
const parts = (path: string) => path.split("/").filter(Boolean).map(decodeURIComponent);

test("every agent name has its own address", () => {
  for (const name of ["scout", "a/b", "🦊 fox", "100%", "new", "memory", "a?b#c"]) {
    for (const tab of places.TABS) {
      expect(places.pageOf(parts(places.agentPath(name, tab)))).toEqual({ page: "agent", name, tab });
    }
  }
});

test("the list, the page for a new agent, and an unknown tab", () => {
  expect(places.pageOf(["agents"])).toEqual({ page: "list" });
  expect(places.pageOf(["agents", "new"])).toEqual({ page: "new" });
  expect(places.pageOf(["agents", "scout", "nonsense"])).toEqual({ page: "agent", name: "scout", tab: "settings" });
});
