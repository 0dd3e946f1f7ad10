import { expect, test, vi } from "vitest";

vi.stubGlobal("window", { addEventListener: () => {} });
const { to } = await import("./route");

test("an address encodes its parts and omits empty parameters", () => {
  expect(to(["chat", "a/b", "ä ?"])).toBe("/chat/a%2Fb/%C3%A4%20%3F");
  expect(to(["memory", "state"], { prefix: "a&b", area: undefined, q: "" })).toBe("/memory/state?prefix=a%26b");
});
