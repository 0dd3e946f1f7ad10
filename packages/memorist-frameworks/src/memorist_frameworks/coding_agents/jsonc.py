"""Edit JSON files with comments, as text: what is not changed keeps every byte.

The files belong to other programs and are edited by hand, so comments, trailing commas, order and
indentation stay. A file is parsed to find the place of a change; then text is inserted or removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SPACE = re.compile(r"[\s\ufeff]*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[^\s,\]}\[{:/\"]+")
MAX_DEPTH = 100


class EditError(ValueError):
    """Raised for a file that is broken or cannot be changed, with the line of the problem."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


@dataclass
class Node:
    """A value in the text."""

    start: int
    end: int
    value: Any
    keys: list[str] = field(default_factory=list)  # of an object
    key_starts: list[int] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)  # of an object or a list
    has_trailing_comma: bool = False

    def child(self, key: str) -> Node | None:
        """Return the value of a key of an object; of the last, if the key is repeated."""
        return self.children[self.position(key)] if key in self.keys else None

    def position(self, key: str) -> int:
        """Return the position of a key of an object; of the last, if the key is repeated."""
        return len(self.keys) - 1 - self.keys[::-1].index(key)


def parse(text: str) -> Node:
    """Return the value of a document, with the places of its parts."""
    parser = _Parser(text)
    at = parser.skip(0)
    node = parser.value(at, 0)
    end = parser.skip(node.end)
    if end != len(text):
        raise parser.error("there is text after the end of the document", end)
    return node


def node_at(text: str, start: int) -> Node:
    """Return the value that starts at a place."""
    return _Parser(text).value(start, 0)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, problem: str, at: int) -> EditError:
        return EditError(problem, self._text.count("\n", 0, at) + 1)

    def skip(self, at: int) -> int:
        """Return the place after white space and comments."""
        while True:
            space = _SPACE.match(self._text, at)
            at = space.end() if space else at
            comment = _COMMENT.match(self._text, at)
            if comment is None:
                return at
            at = comment.end()

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.error("the values are nested too deeply", at)
        character = self._text[at : at + 1]
        if character == "{":
            return self._container(at, depth, "}")
        if character == "[":
            return self._container(at, depth, "]")
        match = (_STRING if character == '"' else _WORD).match(self._text, at)
        if match is None:
            raise self.error("a value is missing", at)
        try:
            return Node(at, match.end(), json.loads(match[0]))
        except ValueError:
            raise self.error(f"{match[0][:40]} is not a value", at) from None

    def _container(self, start: int, depth: int, closing: str) -> Node:
        node = Node(start, start, {} if closing == "}" else [])
        at = self.skip(start + 1)
        while self._text[at : at + 1] != closing:
            if closing == "}":
                at = self._key(node, at)
            child = self.value(at, depth + 1)
            node.children.append(child)
            at = self.skip(child.end)
            character = self._text[at : at + 1]
            node.has_trailing_comma = character == ","
            if character == ",":
                at = self.skip(at + 1)
            elif character != closing:
                raise self.error(f"a comma or {closing} is missing", min(at, len(self._text)))
        node.end = at + 1
        values = [child.value for child in node.children]
        node.value = dict(zip(node.keys, values, strict=True)) if closing == "}" else values
        return node

    def _key(self, node: Node, at: int) -> int:
        """Read a key and its colon; return the place of the value."""
        key = self.value(at, MAX_DEPTH) if self._text[at : at + 1] == '"' else None
        if key is None:
            raise self.error("a key in quotes is missing", at)
        node.keys.append(key.value)
        node.key_starts.append(at)
        colon = self.skip(key.end)
        if self._text[colon : colon + 1] != ":":
            raise self.error("a colon is missing", colon)
        return self.skip(colon + 1)


Insertion = tuple[int, str]  # a place in the text, and the text that is inserted there


def set_member(text: str, path: Sequence[str], value: Any) -> list[Insertion]:
    """Return the insertions that give an object a new member; missing objects are added."""
    node = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise EditError(f"{_name(path[:depth])} is not an object", _line(text, node.start))
        child = node.child(key)
        if child is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return _insert(text, node, key, value)
        node = child
    raise EditError(f"{_name(path)} exists already", _line(text, node.start))


def append_item(text: str, path: Sequence[str], value: Any) -> list[Insertion]:
    """Return the insertions that add an item to a list; a missing list is added."""
    node = find(text, path)
    if node is None:
        return set_member(text, path, [value])
    if not isinstance(node.value, list):
        raise EditError(f"{_name(path)} is not a list", _line(text, node.start))
    return _insert(text, node, None, value)


def find(text: str, path: Sequence[str]) -> Node | None:
    """Return the value at a path of keys; None if there is none."""
    node: Node | None = parse(text)
    for key in path:
        if node is None or not isinstance(node.value, dict):
            return None
        node = node.child(key)
    return node


def apply(text: str, insertions: Sequence[Insertion]) -> str:
    """Return the text with insertions, each at a place in the text that the previous ones made."""
    for at, inserted in insertions:
        text = text[:at] + inserted + text[at:]
    return text


def undo(text: str, insertions: Sequence[Insertion]) -> str | None:
    """Return the text before insertions; None if they are not in their places."""
    for at, inserted in reversed(insertions):
        if text[at : at + len(inserted)] != inserted:
            return None
        text = text[:at] + text[at + len(inserted) :]
    return text


def _insert(text: str, node: Node, key: str | None, value: Any) -> list[Insertion]:
    """Return the insertions that add a child at the end of an object or a list."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent_unit(text)
    inside = text[node.start + 1 : node.end - 1]
    is_inline = bool(node.children) and "\n" not in inside
    outer = _line_indent(text, node.start if is_inline or not node.children else node.end - 1)
    inner = outer + unit
    written = json.dumps(value, ensure_ascii=False, indent=None if is_inline else unit)
    written = written.replace("\n", newline + inner)
    member = written if key is None else f"{json.dumps(key, ensure_ascii=False)}: {written}"
    if is_inline:
        at = node.children[-1].end
        return [(at, f", {member}")]
    body_end = node.start + 1 + len(inside.rstrip())
    added = f"{newline}{inner}{member}"
    if node.has_trailing_comma:
        added += ","
    if "\n" not in text[body_end : node.end - 1]:
        added += newline + outer
    if not node.children or node.has_trailing_comma:
        return [(body_end, added)]
    # The comma goes right behind the last child, and the new child behind the comments after it.
    return [(node.children[-1].end, ","), (body_end + 1, added)]


def remove_child(text: str, node: Node, position: int) -> str:
    """Return the text without one child of an object or a list, its comma and its line break.

    The line break stays where it ends a comment that would hide the text after the child.
    """
    child = node.children[position]
    start = node.key_starts[position] if node.keys else child.start
    gap = text[node.children[position - 1].end if position else node.start + 1 : start]
    comment = ["", *_COMMENT.findall(gap)][-1].rstrip()
    start = len(text[:start].rstrip())
    end = child.end
    parser = _Parser(text)
    comma = parser.skip(end)
    if text[comma : comma + 1] == ",":
        end = comma + 1
    elif position > 0:
        before = parser.skip(node.children[position - 1].end)
        text = text[:before] + text[before + 1 :]
        start -= 1
        end -= 1
    ends_in_comment = comment.startswith("//") and gap.rstrip().endswith(comment)
    if ends_in_comment and not re.match(r"[ \t]*\r?\n", text[end:]):
        start = text.index("\n", start) + 1
    text = text[:start] + text[end:]
    if len(node.children) == 1 and not text[node.start + 1 : start].strip():
        close = len(text) - len(text[start:].lstrip())
        text = text[: node.start + 1] + text[close:]
    return text


def _indent_unit(text: str) -> str:
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _name(path: Sequence[str]) -> str:
    return ".".join(path) or "the document"
