"""How outputs look: each function here knows one kind of output by its lines and says what matters in it, or says nothing.

Every expression is anchored or made of plain words and looks at one line of bounded length: no output can make it slow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_SHORT = 300  # characters of a line that are looked at
_SOME = 20  # lines that must look alike
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?<=>]{0,40}[ -/]?[@-~]|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)?|\x1b[()][A-Z0-9]|\x1b[@-_=>78]"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]"
)


@dataclass(frozen=True)
class Sample:
    """An output's beginning and end, cleaned; where `whole`, the beginning is all of it."""

    head: str
    tail: str
    whole: bool
    count: int

    @cached_property
    def first(self) -> list[str]:
        """The first lines that say something."""
        return _lines(self.head)

    @cached_property
    def last(self) -> list[str]:
        """The last lines that say something."""
        return _lines(self.tail) if self.tail else self.first

    @cached_property
    def every(self) -> list[str]:
        """All lines at hand."""
        return self.first if not self.tail else [*self.first, *self.last]


def many(count: int, one: str, several: str = "", *, sure: bool = True) -> str:
    """A number of things; with a plus where not all were counted."""
    return f"{count:,}{'' if sure else '+'} {one if count == 1 and sure else several or one + 's'}"


def listed(names: Iterable[object], most: int = 6) -> str:
    """Names in a row, and how many there are besides."""
    every = [str(name).strip()[:30] for name in names]
    rest = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + rest


def _lines(text: str) -> list[str]:
    """Lines without colours, and of one that was written over and over only what stood there last."""
    found = []
    for line in text.split("\n"):
        shown = line[: 4 * _SHORT].rstrip("\r").rpartition("\r")[2]
        shown = (shown if shown.isprintable() else _CONTROL.sub("", shown))[:_SHORT].rstrip()
        if shown.strip():
            found.append(shown)
    return found


_TESTS = (
    re.compile(
        r"^=+ (?P<says>(?:\d+ (?:passed|failed|error)|no tests ran)[^=]*?)(?: \(\d+:\d\d:\d\d\))? =+$"
    ),
    re.compile(r"^(?P<says>\d+ (?:passed|failed|errors?)\b.* in [\d.]+s.*)$"),
    re.compile(r"^\s*(?P<says>Tests:\s+\d.*)$"),
    re.compile(r"^test result: (?P<says>(?:ok|FAILED)\. \d+ passed.*)$"),
    re.compile(r"^\s*(?P<says>\d+ (?:passing|failing)\b.*)$"),
    re.compile(r"^# (?P<says>(?:pass|fail) \d+)$"),
    re.compile(r"^(?P<says>Ran \d+ tests? in .*)$"),
    re.compile(r"^(?P<says>FAILED \((?:failures|errors)=.*|OK(?: \(.*\))?)$"),
)
_FAILED = re.compile(
    r"^(?:FAILED |ERROR |(?:--- )?FAIL:? |not ok |test .{1,150} \.\.\. FAILED|\s*● |E {2,})"
)


def tests(sample: Sample) -> str:
    """A test run: its own summary, and the first that failed."""
    says: list[str] = []
    for line in sample.last[-60:]:
        for summary in _TESTS:
            if (found := summary.match(line)) and (found["says"] not in ("OK",) or says):
                says.append(" ".join(found["says"].split()))
                break
    if not says:
        return ""
    failed = [
        line.strip() for line in sample.every if _FAILED.match(line) and line.strip() not in says
    ]
    best = next(
        (
            line
            for line in failed
            if line.startswith(("FAILED ", "ERROR ", "--- FAIL", "FAIL:", "not ok", "●"))
        ),
        "",
    )
    return "; ".join(
        [", ".join(dict.fromkeys(says[-2:])), *([f"first: {best or failed[0]}"] if failed else [])]
    )


_RAISED = re.compile(r"^(?:[\w$]+\.)*[\w$]+(?:: .*)?$")


def trace(sample: Sample) -> str:
    """A stack trace: what was raised at its end."""
    lines = sample.every
    for place, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            ends = [
                later
                for later in lines[place + 1 :]
                if later[0] not in " \t+|^~" and _RAISED.match(later)
            ]
            return f"Python traceback: {ends[-1]}" if ends else "Python traceback"
        if line.startswith(("Exception in thread", "Caused by: ")):
            causes = [later for later in lines[place:] if later.startswith("Caused by: ")]
            return f"stack trace: {causes[-1] if causes else line}"
        if line.startswith("panic: ") or (line.startswith("thread '") and "panicked at" in line):
            return f"stack trace: {line}"
        if line.startswith("    at ") and place and not lines[place - 1].startswith("    at "):
            return f"stack trace: {lines[place - 1].strip()}"
    return ""


_CHANGED = re.compile(r"^(?:diff --git (?:\w/)?|\+\+\+ (?:\w/)?)(?P<name>\S+)")


def diff(sample: Sample) -> str:
    """Changes to files: which, and how many lines."""
    names: dict[str, None] = {}
    added = removed = 0
    if not any(line.startswith(("diff --git ", "--- ")) for line in sample.first[:40]):
        return ""
    if not any(line.startswith("@@ ") for line in sample.every):
        return ""
    for line in sample.every:
        if found := _CHANGED.match(line):
            names[found["name"]] = None
        elif line[0] == "+":
            added += 1
        elif line[0] == "-" and not line.startswith("---"):
            removed += 1
    sure = sample.whole
    counted = (
        f"+{added:,} −{removed:,}" if sure else f"over {added:,} added and {removed:,} removed"
    )
    return f"diff of {many(len(names), 'file', sure=sure)}, {counted}: {listed(names)}"


_STAMP = re.compile(
    r"^(?:\S{1,40}\s+\|\s+)?[\[(<\"]?"
    r"(?P<at>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d)"
    r"|^\S{1,60} \S{1,40} \S{1,40} \[(?P<web>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d)"
)
_LEVEL = re.compile(
    r"\b(?P<bad>ERROR|FATAL|CRITICAL|PANIC|SEVERE|error|fatal|critical)\b|\b(?P<warn>WARN(?:ING)?|warn(?:ing)?)\b"
)


def log(sample: Sample) -> str:
    """A log: from when to when, and how much of it is trouble."""
    stamped = [found for line in sample.first[:_SOME] if (found := _STAMP.match(line))]
    if len(stamped) < 3 or len(stamped) < 0.6 * len(sample.first[:_SOME]):
        return ""
    ends = [found for line in sample.last[-_SOME:] if (found := _STAMP.match(line))]
    start, end = (found["at"] or found["web"] for found in (stamped[0], (ends or stamped)[-1]))
    if start[:10] == end[:10] and len(start) > 15:
        end = end[11:].lstrip(":")
    errors = [
        line for line in sample.every if (found := _LEVEL.search(line, 0, 120)) and found["bad"]
    ]
    warnings = sum(
        1 for line in sample.every if (found := _LEVEL.search(line, 0, 120)) and found["warn"]
    )
    return "; ".join([f"log from {start} to {end}", *_trouble(errors, warnings, sure=sample.whole)])


_CODE = r"(?:[\[(]?[A-Z]{0,4}-?\d{1,5}[\])]?)?"
_ERROR = re.compile(
    rf"(?:^|[\s:(\[])(?:fatal )?(?:error|Error|ERROR|fatal|FATAL) ?{_CODE}[:!\]]|^(?:error|Error|ERROR|FATAL|npm error) "
    r"|^npm ERR! | ERROR | FATAL |^\w*(?:Error|Exception): |: undefined reference to |^make(?:\[\d+\])?: \*\*\* |^E: "
    r"|(?:command not found|No such file or directory|Permission denied)$"
)
_WARNING = re.compile(
    rf"(?:^|[\s:(\[])(?:warning|Warning|WARNING|WARN) ?{_CODE}[:!\]]|^npm (?:warn|WARN) | WARN(?:ING)? |^W: |Warning: "
)
_WORDS = (
    "rr",
    "RR",
    "atal",
    "ATAL",
    "arn",
    "ARN",
    "***",
    "E: ",
    "W: ",
    "not found",
    "No such",
    "denied",
    "refer",
    "xception",
)
_NONE = re.compile(r"\b(?:0|no) (?:errors?|warnings?)\b", re.IGNORECASE)
_OWN_COUNT = re.compile(r"\b[1-9]\d* (?:errors?|problems?|warnings?|previous errors?)\b")


def trouble(sample: Sample) -> str:
    """A compiler, a build or an installation: how many errors and warnings, and the first error."""
    some = [
        line.strip()
        for line in sample.every
        if any(word in line for word in _WORDS) and not _NONE.search(line)
    ]
    warnings = [line for line in some if _WARNING.search(line)]
    errors = [line for line in some if _ERROR.search(line) and not _WARNING.search(line)]
    own = next((line.strip() for line in reversed(sample.last[-6:]) if _OWN_COUNT.search(line)), "")
    if not errors and len(warnings) < 3 and not own:
        return ""
    if own:
        first = next(
            (line for line in [*errors, *warnings, *sample.first] if line != own), ""
        ).strip()
        return f"{own.removesuffix('.')}; first: {first}" if first else own
    return "; ".join(
        _trouble(errors, len(warnings), sure=sample.whole, warning="" if errors else warnings[0])
    )


def _trouble(errors: Sequence[str], warnings: int, *, sure: bool, warning: str = "") -> list[str]:
    counts = [many(len(errors), "error", sure=sure)] if errors else []
    counts += [many(warnings, "warning", sure=sure)] if warnings else []
    first = errors[0] if errors else warning
    return [
        *([", ".join(counts)] if counts else []),
        *([f"first: {first.strip()}"] if first else []),
    ]


_SUMMARY = re.compile(
    r"^(?:Successfully (?:installed|built|tagged)|(?:added|changed|removed|up to date|audited) ?\d*.{0,40}packages?\b"
    r"|Installed \d+|Finished |BUILD |\d+ (?:files?|packages?|directories) |Done\b|Built |Would |Total |Success)"
)


def summary(sample: Sample) -> str:
    """What a tool itself says at its end."""
    says = next((line.strip() for line in sample.last[-15:] if _SUMMARY.match(line.strip())), "")
    warned = sum(1 for line in sample.every if _WARNING.search(line)) if says else 0
    return (
        "; ".join([says, *([many(warned, "warning", sure=sample.whole)] if warned else [])])
        if says
        else ""
    )


_HASH = re.compile(r"^(?:\* )?(?:commit )?[0-9a-f]{7,40}\b")


def commits(sample: Sample) -> str:
    """A history: how many commits, and the newest."""
    long = [line for line in sample.every if line.startswith("commit ") and _HASH.match(line)]
    if long and sample.first[0] == long[0]:
        subject = next((line.strip() for line in sample.first if line.startswith("    ")), "")
        return f"{many(len(long), 'commit', sure=sample.whole)}, newest: {subject}"
    short = [line for line in sample.first[:_SOME] if _HASH.match(line)]
    if len(short) < 3 or len(short) < len(sample.first[:_SOME]):
        return ""
    return f"{many(sample.count, 'commit')}, newest: {sample.first[0].partition(' ')[2]}"


_ENTRY = re.compile(
    r"^(?P<kind>[-dlcbps])[r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-][.+@]?\s+\d+\s+\S+\s+\S+\s+"
)
_MATCH = re.compile(r"^(?P<name>[^\s:]{1,200}):\d+[:-]")


def listing(sample: Sample) -> str:
    """Files, as `ls -l` lists them, paths, or lines found in files."""
    entries = [found["kind"] for line in sample.every if (found := _ENTRY.match(line))]
    if len(entries) >= 3 and len(entries) >= 0.6 * len(sample.every):
        folders = entries.count("d")
        counted = many(len(entries) - folders, "file", sure=sample.whole)
        return f"listing of {counted}" + (
            f" and {many(folders, 'folder', sure=sample.whole)}" if folders else ""
        )
    some = sample.first[:_SOME]
    if len(some) < 5:
        return ""
    if sum(1 for line in some if _MATCH.match(line)) >= 0.9 * len(some):
        names = dict.fromkeys(
            found["name"] for line in sample.every if (found := _MATCH.match(line))
        )
        return f"lines found in {many(len(names), 'file', sure=sample.whole)}: {listed(names, 4)}"
    if all("/" in line and " " not in line.strip() and ":" not in line for line in some):
        return f"{many(sample.count, 'path')}, from {some[0].strip()} to {(sample.last or sample.first)[-1].strip()}"
    return ""


def headers(sample: Sample) -> str:
    """An answer over HTTP: its status and what it carries."""
    starts = [line for line in sample.first if re.match(r"^(?:< )?HTTP/[\d.]+ \d{3}", line)]
    if not starts or sample.first.index(starts[0]) > 30:
        return ""
    kind = next(
        (line for line in sample.first if re.match(r"^(?:< )?content-type:", line, re.IGNORECASE)),
        "",
    )
    answer = starts[-1].removeprefix("< ").strip()
    return answer + (f", {kind.partition(':')[2].strip()}" if kind else "")


def table(sample: Sample) -> str:
    """A table: its columns and how many rows."""
    lines = sample.first[:_SOME]
    if len(lines) < 3:
        return ""
    rule = lines[1].strip()
    if re.fullmatch(r"[-+|: =]{3,}", rule) and "--" in rule and ("|" in lines[0] or " " in rule):
        names = [
            name
            for name in re.split(r"\||  +| (?=[A-Z])", lines[0].strip().strip("|"))
            if name.strip()
        ]
        return f"table with the columns {listed(names)}"
    if re.fullmatch(r"[A-Z][A-Z0-9 ()/_%-]{5,}", lines[0].strip()) and re.search(
        r"\S {2,}\S", lines[0].strip()
    ):
        names = re.split(r" {2,}", lines[0].strip())
        return f"table with the columns {listed(names)}; {many(sample.count - 1, 'row')}"
    for mark, name in (("\t", "table"), (",", "CSV"), (";", "CSV"), ("|", "table")):
        columns = lines[0].count(mark)
        same = sum(1 for line in lines if _cells(line, mark) == columns)
        prose = mark in ",;" and (
            f"{mark} " in lines[0] or (columns < 2 and any(" " in line for line in lines))
        )
        if columns and same >= 0.9 * len(lines) and not prose and lines[0][0] not in "{[<":
            return f"{name} with the columns {listed(_names(lines[0], mark))}; {many(sample.count - 1, 'row')}"
    return ""


def _cells(line: str, mark: str) -> int:
    """How many marks there are in a line outside of quotes."""
    return sum(part.count(mark) for part in line.split('"')[::2])


def _names(line: str, mark: str) -> list[str]:
    return [name.strip().strip('"') for name in line.split(mark)]


def json_lines(sample: Sample) -> str:
    """One JSON object per line: the keys of the first."""
    first = sample.head.split("\n", 3)[:3]
    if len(first) < 3 or not all(
        line.startswith("{") and line.rstrip().endswith("}") for line in first[:2]
    ):
        return ""
    try:
        keys = [list(json.loads(line)) for line in first[:2]]
    except (ValueError, RecursionError):
        return ""
    return f"JSON lines, objects with the keys {listed(keys[0])}"


def markup(sample: Sample) -> str:
    """A page or a document: its title."""
    start = sample.head.lstrip()[:2000]
    if re.match(r"<!doctype html|<html", start, re.IGNORECASE):
        title = re.search(r"<title[^>]{0,100}>([^<]{1,200})", start, re.IGNORECASE)
        return f"HTML page: {title[1].strip()}" if title else "HTML page"
    if found := re.match(
        r"<\?xml[^>]{0,200}>\s{0,20}(?:<![^>]{0,500}>\s{0,20}){0,3}<([\w:.-]{1,80})", start
    ):
        return f"XML document: {found[1]}"
    if (
        len(sample.first) > 1
        and re.match(r"# \S", sample.first[0])
        and not sample.first[1].startswith(("import ", "from "))
    ):
        return f"{sample.first[0][2:].strip()}: {sample.first[1].lstrip('#').strip()}"
    return ""


RECOGNISERS: tuple[Callable[[Sample], str], ...] = (
    json_lines,
    markup,
    diff,
    commits,
    tests,
    trace,
    headers,
    log,
    trouble,
    listing,
    summary,
    table,
)
"""In the order in which they are asked."""
