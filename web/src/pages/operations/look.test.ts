import { afterEach, expect, test, vi } from "vitest";
import { look, PATIENCE } from "./look";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A server that never answers some addresses. */
function serve(hangs: (address: string) => boolean, asked: string[] = []): string[] {
  vi.stubGlobal("fetch", (address: string, { signal }: RequestInit) => {
    asked.push(address);
    if (!hangs(address)) return Promise.resolve(new Response(JSON.stringify({ version: "1" })));
    return new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
  });
  return asked;
}
const never = new AbortController().signal;

test("a server that answers is looked at whole, by an admin", async () => {
  serve(() => false);
  expect(await look(true, never)).toMatchObject({ trouble: "", status: { version: "1" }, error: null });
  expect(await look(false, never)).toMatchObject({ trouble: "", status: undefined, error: null });
});

test("one that hangs is told of after a few seconds, and asked nothing else", async () => {
  vi.useFakeTimers();
  const asked = serve(() => true);
  const looked = look(true, never);
  await vi.advanceTimersByTimeAsync(PATIENCE * 1000);
  expect(await looked).toMatchObject({ trouble: undefined, status: undefined });
  expect(asked).toEqual(["/readyz"]);
});

test("one that is ready and cannot say how it is says that", async () => {
  vi.useFakeTimers();
  serve((address) => address === "/api/status");
  const looked = look(true, never);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await looked).toMatchObject({ trouble: "", status: undefined, error: { status: 0 } });
});
