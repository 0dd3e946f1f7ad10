import { expect, test } from "vitest";
import { csv } from "./csv";

test("quotes, line breaks and empty values", () => {
  const rows = [
    { number: 1, who: 'a "b", c', before: null },
    { number: 2, who: "two\nlines", before: "x" },
  ];
  expect(csv(rows)).toBe('number,who,before\r\n1,"a ""b"", c",\r\n2,"two\nlines",x');
  expect(csv([])).toBe("");
});

test("text is never a formula", () => {
  expect(csv([{ who: "=HYPERLINK(1)", n: -1 }])).toBe("who,n\r\n'=HYPERLINK(1),-1");
});
