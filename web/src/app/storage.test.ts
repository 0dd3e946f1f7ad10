import { afterEach, expect, test, vi } from "vitest";
import { clearStored, readStored, store } from "./storage";

afterEach(() => vi.unstubAllGlobals());

test("clearing the storage keeps only the theme", () => {
  vi.stubGlobal("localStorage", storage({ memorist_theme: "dark", chatDraft_ada_1: "secret", memorist_user: "ada" }));
  clearStored();
  expect({ ...localStorage }).toEqual({ memorist_theme: "dark" });
});

test("the app works without browser storage", () => {
  vi.stubGlobal("localStorage", undefined);
  store("a", "b");
  clearStored();
  expect(readStored("a")).toBeNull();
});

/** A fake of the browser's storage: values are own properties, methods are not. */
function storage(content: Record<string, string>): Record<string, string> {
  const verbs = {
    removeItem(this: Record<string, string>, name: string) {
      delete this[name];
    },
  };
  return Object.assign(Object.create(verbs), content);
}
