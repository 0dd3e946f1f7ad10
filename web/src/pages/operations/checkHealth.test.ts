import { afterEach, expect, test, vi } from "vitest";
import { checkHealth, TIMEOUT_SECONDS } from "./checkHealth";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A server that never answers some addresses. */
function serve(hangs: (address: string) => boolean, requests: string[] = []): string[] {
  vi.stubGlobal("fetch", (address: string, { signal }: RequestInit) => {
    requests.push(address);
    if (!hangs(address)) return Promise.resolve(new Response(JSON.stringify({ version: "1" })));
    return new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason)));
  });
  return requests;
}
const never = new AbortController().signal;

test("an admin sees readiness and status", async () => {
  serve(() => false);
  expect(await checkHealth(true, never)).toMatchObject({ trouble: "", status: { version: "1" }, error: null });
  expect(await checkHealth(false, never)).toMatchObject({ trouble: "", status: undefined, error: null });
});

test("a server that hangs is reported after a few seconds, without more requests", async () => {
  vi.useFakeTimers();
  const requests = serve(() => true);
  const result = checkHealth(true, never);
  await vi.advanceTimersByTimeAsync(TIMEOUT_SECONDS * 1000);
  expect(await result).toMatchObject({ trouble: undefined, status: undefined });
  expect(requests).toEqual(["/readyz"]);
});

test("a ready server without a status is reported", async () => {
  vi.useFakeTimers();
  serve((address) => address === "/api/status");
  const result = checkHealth(true, never);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await result).toMatchObject({ trouble: "", status: undefined, error: { status: 0 } });
});
