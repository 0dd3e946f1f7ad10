import { expect, test } from "vitest";
import { marked, wordRanges } from "./marks";
import { addressOf, parseQuery, span } from "./query";

const words = (text: string, question: string) => wordRanges(text, question).map(([from, to]) => text.slice(from, to));

test("words are marked whatever their case, accents or endings; stop words are not", () => {
  expect(
    words("My sister lives in Évora, and Sisters live where she lived", "where does my SISTER live in evora?"),
  ).toEqual(["sister", "lives", "Évora", "Sisters", "live", "lived"]);
  expect(words("the <b>cat</b>", "<script>")).toEqual([]);
  expect(words("私は東京に住んでいます", "東京に住む")).toEqual(["東京に住"]);
  expect(words("anything", "")).toEqual([]);
});

test("of a long text the part with the most marks is shown, and all of a short one", () => {
  const text = `${"blah ".repeat(100)}the night train to Porto leaves ${"blah ".repeat(100)}`;
  const shown = marked(text, "night train Porto", 120);
  expect(shown.filter((piece) => piece.marked).map((piece) => piece.text)).toEqual(["night", "train", "Porto"]);
  expect(shown.map((piece) => piece.text).join("").length).toBeLessThan(130);
  expect(shown[0]?.text).toBe("… ");
  expect(marked("a train", "train", 120)).toEqual([
    { text: "a ", marked: false },
    { text: "train", marked: true },
  ]);
});

test("the query is parsed from the address, without invalid values", () => {
  const search = parseQuery(new URLSearchParams("q=x&kinds=notes,evil,refs&since=week&until=never"));
  expect(search).toMatchObject({ q: "x", kinds: ["notes", "refs"], since: "week", until: "" });
  expect(parseQuery(new URLSearchParams("since=__proto__")).since).toBe("");
  expect(addressOf(search)).toBe("/search?q=x&kinds=notes%2Crefs&since=week");
  const now = new Date("2026-03-08T12:00:00Z");
  expect(span(search, now)).toEqual({ since: "2026-03-01T12:00:00.000Z", until: null });
  const range = span(parseQuery(new URLSearchParams("since=2026-03-01&until=2026-03-01")));
  expect(new Date(range.until as string).getTime() - new Date(range.since as string).getTime()).toBe(86_400_000);
});
