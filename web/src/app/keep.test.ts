import { afterEach, expect, test, vi } from "vitest";
import { forget, keep, kept } from "./keep";

afterEach(() => vi.unstubAllGlobals());

test("whoever comes next finds the theme, and nothing that was typed", () => {
  vi.stubGlobal("localStorage", storage({ retain_theme: "dark", chatDraft_ada_1: "secret", retain_user: "ada" }));
  forget();
  expect({ ...localStorage }).toEqual({ retain_theme: "dark" });
});

test("a browser that keeps nothing stops nobody", () => {
  vi.stubGlobal("localStorage", undefined);
  keep("a", "b");
  forget();
  expect(kept("a")).toBeNull();
});

/** A storage as browsers have it: what it keeps are its own properties, and its verbs are not. */
function storage(content: Record<string, string>): Record<string, string> {
  const verbs = {
    removeItem(this: Record<string, string>, name: string) {
      delete this[name];
    },
  };
  return Object.assign(Object.create(verbs), content);
}
