// Detect text that would take the Markdown parser long: its time grows with the square of some marks and with the nesting
// depth, so a few crafted kilobytes could freeze a page. Such text is shown unrendered.
const MOST = 200_000;
const MARKS = 8_000;
const MARK = /[*_~`[\]<>|\n]|[-+](?=[ \t])|\d[.)](?=[ \t])/g;
const UNDERLINES = 500;
const UNDERLINE = /^ {0,3}=+[ \t]*$/gm;
const DEEP = /^[ \t]*(?:(?:>|(?:[-+*]|\d{1,9}[.)])[ \t])[ \t]*){30}/m;
const FAR_IN = /^[ \t>]{100}/m;

const number = (text: string, mark: RegExp) => text.match(mark)?.length ?? 0;

export function heavy(text: string): boolean {
  if (text.length > MOST || DEEP.test(text) || FAR_IN.test(text)) return true;
  return (text.length > MARKS && number(text, MARK) > MARKS) || number(text, UNDERLINE) > UNDERLINES;
}
