// Detect text that would take the Markdown parser long: its time grows with the square of some marks and with the nesting
// depth, so a few crafted kilobytes could freeze a page. Such text is shown unrendered.
const MAX_LENGTH = 200_000;
const MAX_MARKS = 8_000;
const MARK = /[*_~`[\]<>|\n]|[-+](?=[ \t])|\d[.)](?=[ \t])/g;
const MAX_UNDERLINES = 500;
const UNDERLINE = /^ {0,3}=+[ \t]*$/gm;
const DEEPLY_NESTED = /^[ \t]*(?:(?:>|(?:[-+*]|\d{1,9}[.)])[ \t])[ \t]*){30}/m;
const DEEPLY_INDENTED = /^[ \t>]{100}/m;

const countMatches = (text: string, mark: RegExp) => text.match(mark)?.length ?? 0;

export function heavy(text: string): boolean {
  if (text.length > MAX_LENGTH || DEEPLY_NESTED.test(text) || DEEPLY_INDENTED.test(text)) return true;
  return (
    (text.length > MAX_MARKS && countMatches(text, MARK) > MAX_MARKS) || countMatches(text, UNDERLINE) > MAX_UNDERLINES
  );
}
