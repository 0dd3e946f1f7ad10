import { beforeAll, expect, test, vi } from "vitest";

let places: typeof import("./places");
beforeAll(async () => {
  vi.stubGlobal("window", { addEventListener: () => {} });
  places = await import("./places");
});
const parts = (path: string) => path.split("/").filter(Boolean).map(decodeURIComponent);

test("every name has an address of its own, whatever is in it", () => {
  for (const name of ["scout", "a/b", "🦊 fox", "100%", "new", "memory", "a?b#c"]) {
    for (const tab of places.TABS) {
      expect(places.found(parts(places.place(name, tab)))).toEqual({ page: "agent", name, tab });
    }
  }
});

test("the list, the page for a new one, and a tab that does not exist", () => {
  expect(places.found(["agents"])).toEqual({ page: "list" });
  expect(places.found(["agents", "new"])).toEqual({ page: "new" });
  expect(places.found(["agents", "scout", "nonsense"])).toEqual({ page: "agent", name: "scout", tab: "settings" });
});
