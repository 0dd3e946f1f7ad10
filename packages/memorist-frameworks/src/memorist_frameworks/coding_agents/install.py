"""Add memorist to the settings of a coding agent, and remove exactly what was added.

A change is computed first, as the text of each file before and after, so that it can be shown. A
record of what was inserted is kept in the data folder: with it, removal restores the bytes that
were there. If a file was edited since, only memorist's own entries are removed from it.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memorist.base.errors import Conflict, Invalid
from memorist.coding_agents.project import data_folder, make_data_folder
from memorist.storage import files
from memorist_frameworks.coding_agents import jsonc
from memorist_frameworks.coding_agents.hosts import HOSTS, NAME, Addition, Host, Place
from memorist_frameworks.coding_agents.jsonc import EditError, Insertion

RECORD = "installed.json"
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_OWN_COMMAND = re.compile(
    r"""(?:'.*[/\\]|".*[/\\]|[^\s'"]*[/\\])?memorist(?:\.exe)?['"]? hook """
    rf"(?:{'|'.join(HOSTS)}) \w+"
)
"""The start of a hook's command: the program, maybe in quotes, and a host."""


@dataclass(frozen=True)
class FileChange:
    """A file before and after a change; None means that it does not exist."""

    file: Path
    before: str | None
    after: str | None
    insertions: list[Insertion] = field(default_factory=list)
    existed: bool = True  # without memorist's entries
    target: Mapping[str, Any] = field(default_factory=dict)  # host and project, for the record
    entries: Sequence[Addition] = ()  # that the insertions make

    def diff(self) -> str:
        """Return the change as a unified diff."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.file) if self.before is not None else os.devnull,
            str(self.file) if self.after is not None else os.devnull,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def check_installed(host: Host, place: Place) -> None:
    """Raise Invalid if a host is neither on the path nor has settings."""
    folder = host.folder(place)
    if shutil.which(host.program) or folder.exists():
        return
    problem = (
        f"{host.title} was not found: there is no program {host.program!r} and no folder {folder}. "
        "Install it first, or use --force"
    )
    raise Invalid(field="host", problem=problem)


def plan_install(host: Host, place: Place, command: Sequence[str]) -> list[FileChange]:
    """Return the changes that add memorist to a host."""
    record = _read_record()["files"]
    changes = []
    for file, additions in _by_file(host.additions(host, place, command)).items():
        before = _read(file)
        with _name_file_in_errors(file):
            clean = _remove_entries(before, additions, record.get(str(file)))
            after, insertions = _add_entries(clean, additions)
            if clean != before and _has_same_data(before, after, additions):
                continue  # the entries are there already
        if after != before:
            existed = clean is not None
            target = _target(host, place)
            changes.append(FileChange(file, before, after, insertions, existed, target, additions))
    return changes


def plan_uninstall(host: Host, place: Place, command: Sequence[str]) -> list[FileChange]:
    """Return the changes that remove memorist from a host."""
    record = _read_record()["files"]
    changes = []
    files = _by_file(host.additions(host, place, command))
    for name, installed in record.items():  # the host may prefer another file by now
        if _target(host, place).items() <= installed.items():
            files.setdefault(Path(name), _recorded_additions(Path(name), installed))
    for file, additions in files.items():
        before = _read(file)
        if before is None:
            continue
        with _name_file_in_errors(file):
            after = _remove_entries(before, additions, record.get(str(file)))
        if after != before:
            changes.append(FileChange(file, before, after))
    return changes


def apply_changes(changes: Sequence[FileChange]) -> None:
    """Write the files, and record what was inserted and which folders were made.

    Folders that installation made are removed when they are empty again.
    """
    for change in changes:
        if _read(change.file) != change.before:
            raise Conflict(
                problem=f"{change.file} was changed by another program in the meantime; run the "
                "command again"
            )
    record = _read_record()
    files, folders = record["files"], record["folders"]
    folders += _missing_folders(data_folder())
    make_data_folder()
    for change in changes:
        if change.after is None:
            change.file.unlink()
        else:
            folders += _missing_folders(change.file.resolve().parent)
            _write(change.file, change.after, is_shared=bool(change.target.get("project")))
        files.pop(str(change.file), None)
        if change.insertions:
            files[str(change.file)] = {
                **change.target,
                "entries": [[entry.kind, entry.path] for entry in change.entries],
                "existed": change.existed,
                "digest": _digest(change.after or ""),
                "insertions": change.insertions,
            }
    if not files:
        (data_folder() / RECORD).unlink(missing_ok=True)
    if not files or any(change.after is None for change in changes):
        record["folders"] = _remove_empty_folders(folders)
    if files:
        _write(data_folder() / RECORD, json.dumps(record, indent=1) + "\n")


def _missing_folders(folder: Path) -> list[str]:
    """Return a folder and those above it that do not exist."""
    missing = []
    while not folder.exists():
        missing.append(str(folder))
        folder = folder.parent
    return missing


def _remove_empty_folders(folders: Sequence[str]) -> list[str]:
    """Remove folders that are empty, and return those that are not."""
    for folder in sorted(folders, key=len, reverse=True):  # inner folders first
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return [folder for folder in folders if Path(folder).exists()]


def _target(host: Host, place: Place) -> dict[str, Any]:
    """Return the host and the project of an installation, as the record has them."""
    return {"host": host.name, "project": str(place.project) if place.project else None}


def _recorded_additions(file: Path, record: Mapping[str, Any]) -> list[Addition]:
    """Return what was added to a file, as far as its removal needs it."""
    inserted = record["insertions"][0][1]  # the whole text of a file that is memorist's own
    return [
        Addition(file, tuple(path), inserted if kind == "file" else None, kind)
        for kind, path in record["entries"]
    ]


def _by_file(additions: Sequence[Addition]) -> dict[Path, list[Addition]]:
    files: dict[Path, list[Addition]] = {}
    for addition in additions:
        files.setdefault(addition.file, []).append(addition)
    return files


def _add_entries(text: str | None, additions: Sequence[Addition]) -> tuple[str, list[Insertion]]:
    """Return a file's text with the additions, and the insertions that make it."""
    first = additions[0]
    if first.kind == "file":
        if text is not None:
            raise EditError("the file exists, and memorist did not write it", 1)
        return first.value, [(0, first.value)]
    if first.kind == "table":
        return _add_table(text or "", first)
    insertions: list[Insertion] = []
    result = text or ""
    if not result.strip("\ufeff \t\r\n"):
        insertions.append((len(result), "{}\n"))
        result += "{}\n"
    for addition in additions:
        if addition.kind == "item":
            added = jsonc.append_item(result, addition.path, addition.value)
        elif addition.path == ("version",) and jsonc.find(result, addition.path):
            continue  # the host's own; it stays as it is
        else:
            added = jsonc.set_member(result, addition.path, addition.value)
        result = jsonc.apply(result, added)
        insertions += added
    jsonc.parse(result)
    return result, insertions


def _add_table(text: str, addition: Addition) -> tuple[str, list[Insertion]]:
    before = _parse_toml(text)
    if NAME in before.get(addition.path[0], {}):
        raise EditError(f"{'.'.join(addition.path)} exists, and memorist did not write it", 1)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(addition.path)}]"]
    # A JSON string or list of strings is also one of TOML.
    lines += [f"{key} = {json.dumps(value)}" for key, value in addition.value.items()]
    gap = "" if not text or text.endswith("\n") else newline
    blank = newline if text.strip() else ""
    inserted = gap + blank + newline.join(lines) + newline
    result = text + inserted
    try:
        _parse_toml(result)
    except EditError:
        problem = (
            f"{addition.path[0]} is an inline table; write it as [{addition.path[0]}.…] tables"
        )
        raise EditError(problem, 1) from None
    return result, [(len(text), inserted)]


def _remove_entries(
    text: str | None, additions: Sequence[Addition], record: Mapping[str, Any] | None
) -> str | None:
    """Return a file's text without memorist's entries; None if nothing is left of the file."""
    if text is None:
        return None
    was_created = bool(record) and not (record or {})["existed"]
    if record and record["digest"] == _digest(text):
        restored = jsonc.undo(text, [(at, inserted) for at, inserted in record["insertions"]])
        if restored is not None:
            is_empty = restored.strip("\ufeff \t\r\n") in ("", "{}")
            return None if was_created and is_empty else restored
    first = additions[0]
    if first.kind == "file":
        return None if text.startswith(first.value.partition("\n")[0]) else text
    if first.kind == "table":
        return _remove_table(text, first)
    if not text.strip("\ufeff \t\r\n"):
        return text
    result = text
    for addition in reversed(additions):
        result = _remove_entry(result, addition)
    jsonc.parse(result)
    if result != text and was_created and _is_left_over(result, additions):
        return None
    return result


def _is_left_over(text: str, additions: Sequence[Addition]) -> bool:
    """Report if a file holds nothing but what memorist created it with."""
    try:
        value = json.loads(text)
    except ValueError:  # a comment, which somebody else wrote
        return False
    has_version = any(addition.path == ("version",) for addition in additions)
    return value == {} or (has_version and value == {"version": 1})


def _remove_entry(text: str, addition: Addition) -> str:
    """Remove memorist's entry, and the objects that are empty without it."""
    path = addition.path
    if addition.kind == "item":
        node = jsonc.find(text, path)
        if node is None or not isinstance(node.value, list):
            return text
        before = text
        for item in reversed(range(len(node.children))):  # from the end: places before it stay
            group = node.children[item]
            if is_own_hook(group.value):
                text = jsonc.remove_child(text, node, item)
            elif isinstance(group.value, dict) and (inner := group.child("hooks")):
                text = _remove_own_hooks(text, inner)
            node = jsonc.find(text, path) or node
        if text == before or node.children:
            return text
    else:
        node = jsonc.find(text, path)
        if node is None or not is_own_server(node.value):
            return text
        text = _remove_member(text, path)
    return _prune(text, path if addition.kind == "item" else path[:-1])


def _remove_own_hooks(text: str, hooks: jsonc.Node) -> str:
    """Remove memorist's hooks from a group that has also hooks of the user."""
    ours = [at for at, hook in enumerate(hooks.children) if is_own_hook(hook.value)]
    for position in reversed(ours):
        text = jsonc.remove_child(text, hooks, position)
        hooks = jsonc.node_at(text, hooks.start)
    return text


def _prune(text: str, path: Sequence[str]) -> str:
    while path:
        node = jsonc.find(text, path)
        if node is None or node.children:
            break
        text = _remove_member(text, path)
        path = path[:-1]
    return text


def _remove_member(text: str, path: Sequence[str]) -> str:
    parent = jsonc.find(text, path[:-1])
    if parent is None:
        return text
    return jsonc.remove_child(text, parent, parent.position(path[-1]))


def _remove_table(text: str, addition: Addition) -> str:
    data = _parse_toml(text)
    group, name = addition.path
    server = data.get(group, {}).get(name) if isinstance(data.get(group), dict) else None
    if server is None or not is_own_server(server):
        return text
    header = re.compile(
        rf"^[ \t]*\[[ \t]*{group}[ \t]*\.[ \t]*\"?{name}\"?[ \t]*[.\]]", re.MULTILINE
    )
    result = text
    while match := header.search(result):
        following = _TABLE.search(result, match.end())
        end = following.start() if following else len(result)
        lines = result[match.start() : end].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            end -= len(lines.pop())  # comments before the next table are not memorist's
        head = result[: match.start()]
        if head.endswith(("\n\n", "\r\n\r\n")):  # the blank line before the table
            head = head[: -2 if head.endswith("\r\n") else -1]
        result = head + result[end:]
    del data[group][name]
    if not data[group] and group not in _parse_toml(result):
        del data[group]
    if _parse_toml(result) != data:
        raise EditError(f"[{group}.{name}] could not be removed; remove it by hand", 1)
    return result


def is_own_server(value: Any) -> bool:
    """Report if an MCP entry was written by `memorist install`."""
    words = value.get("args", value.get("command", ())) if isinstance(value, dict) else ()
    return isinstance(words, list) and {"mcp", "--project"} <= set(map(str, words))


def is_own_hook(value: Any) -> bool:
    """Report if a hook, or every hook of a group, was written by `memorist install`."""
    hooks = value.get("hooks", [value]) if isinstance(value, dict) else []
    if not isinstance(hooks, list):
        return False
    commands = [str(hook.get("command", "")) if isinstance(hook, dict) else "" for hook in hooks]
    return bool(commands) and all(_OWN_COMMAND.match(command) for command in commands)


def _has_same_data(before: str | None, after: str, additions: Sequence[Addition]) -> bool:
    """Report if two texts hold the same data."""
    if additions[0].kind == "table":
        return _parse_toml(before or "") == _parse_toml(after)
    if additions[0].kind == "file":
        return before == after
    return bool(jsonc.parse(before or "{}").value == jsonc.parse(after).value)


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"at line (\d+)", str(error))
        line = int(match[1]) if match else text.count("\n") + 1
        raise EditError(re.sub(r" \(at .*", "", str(error)), line) from None


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = f"{file} is left as it is: line {line} is not UTF-8 text"
        raise Invalid(field="host", problem=problem) from None


def _write(file: Path, text: str, is_shared: bool = False) -> None:
    """Replace a file at once, so that its program never reads half of it; follow links.

    Only the user can read a new file, unless it is shared, as those of a project are.
    """
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o666 & ~files.umask() if is_shared else 0o600
    if target.exists():
        mode = target.stat().st_mode & 0o777
    with files.writing(target, replace=True, mode=mode) as out:
        out.write(text.encode("utf-8"))


@contextlib.contextmanager
def _name_file_in_errors(file: Path) -> Iterator[None]:
    """Turn a problem of a file into an error that names it."""
    try:
        yield
    except EditError as error:
        problem = f"{file} is left as it is: {error}"
        raise Invalid(field="host", problem=problem) from None


def _read_record() -> dict[str, Any]:
    """Return what was installed: `files` by path, and the `folders` that were made."""
    record: Any = None
    with contextlib.suppress(ValueError):
        record = json.loads(_read(data_folder() / RECORD) or "null")
    if not isinstance(record, dict):
        record = {}
    return {"files": record.get("files", {}), "folders": record.get("folders", [])}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
