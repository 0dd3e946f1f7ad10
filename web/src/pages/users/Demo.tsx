// Demo data: a user with a few conversations, entries and notes, added and removed with one click.
import { useEffect, useState } from "react";
import { errorMessage, get, post, put } from "../../api/client";
import { useApp } from "../../app/context";
import { go } from "../../app/route";
import { notify } from "../../ui/toast";

export const DEMO = "demo";
const AGENT = "assistant";
const CONVERSATIONS = [
  {
    label: "A trip to Lisbon",
    lines: [
      ["user", "My sister Clara moved to Lisbon. She is allergic to nuts."],
      ["assistant", "Noted: Clara lives in Lisbon and is allergic to nuts."],
      ["user", "I want to visit her in May, by train and not before nine."],
      ["assistant", "Then the night train from Hendaye fits: it arrives at 10:30."],
    ],
  },
  {
    label: "Tea for the office",
    lines: [
      ["user", "We drink Darjeeling in the office. The budget is 40 euros a month."],
      ["assistant", "Darjeeling for up to 40 euros a month: I will remember that."],
    ],
  },
] as const;
const CORE_ENTRIES = ["Clara, the user’s sister, lives in Lisbon.", "The user travels by train, never before nine."];
const NOTES =
  "## Family\n- Clara (sister) lives in Lisbon and is allergic to nuts.\n\n## Travel\n- By train, not before nine.\n";

async function load(): Promise<void> {
  const query = { user: DEMO, agent: AGENT };
  for (const { label, lines } of CONVERSATIONS) {
    const session = await post("/api/sessions", { query, body: { label } });
    const messages = lines.map(([role, content]) => ({ role, content }));
    await post("/api/messages/{session}/batch", { path: { session: session.id }, query, body: { messages } });
  }
  for (const content of CORE_ENTRIES) await post("/api/entries", { query, body: { content, kind: "core" } });
  await put("/api/notes", { query, body: { text: NOTES } });
  await put("/api/state/{key}", { path: { key: "budget" }, query, body: { value: { tea: 40 }, area: "user" } });
}

const exists = async (signal?: AbortSignal) =>
  (await get("/api/users", { query: { search: DEMO, limit: 100 }, signal })).data.some((item) => item.user === DEMO);

/** The button that adds the demo data, or removes it. */
export function Demo({ changed }: { changed: () => void }) {
  const { may, user, choose, refresh } = useApp();
  const [isLoaded, setIsLoaded] = useState<boolean>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    exists(stop.signal).then(setIsLoaded, () => {});
    return () => stop.abort();
  }, []);
  const runAndSet = (work: () => Promise<void>, after: boolean) => async () => {
    setBusy(true);
    try {
      await work();
      setIsLoaded(after);
      changed();
    } catch (error) {
      notify(errorMessage(error));
    } finally {
      setBusy(false);
    }
  };
  const add = runAndSet(async () => {
    await load();
    choose(DEMO);
    notify("Demo data added. You now see the user “demo”.", () => go("/chat"), "Open chat");
  }, true);
  const erase = runAndSet(async () => {
    await post("/api/users/{user}/erase", { path: { user: DEMO } });
    if (user === DEMO) {
      choose(null);
      refresh();
    }
    notify("Demo data removed.");
  }, false);
  if (isLoaded === undefined || !may("write") || !may("delete")) return null;
  return (
    <button type="button" onClick={isLoaded ? erase : add} disabled={busy}>
      {isLoaded ? "Remove demo data" : "Add demo data"}
    </button>
  );
}
