"""Anthropic's memory tool: Claude's files live in the database.

Every answer is, byte for byte, the answer of the SDK's own tool for a folder on a disk, also to
malformed commands. A command is one transaction: a folder moves whole or not at all, and
concurrent edits see each other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from memorist.base import canonical
from memorist.base.errors import Invalid, NotFound, TooLarge
from memorist.kinds.items import PlacedItem as Item
from memorist.memory import Scope
from memorist_frameworks.memory_files import (
    MAX_LEVELS,
    STORE,
    Files,
    Path,
    StoreFiles,
    is_file,
    path_of,
)
from memorist_frameworks.require import require_extra, require_local_scope

with require_extra("anthropic"):
    from anthropic.lib.tools import ToolError
    from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
    from anyio.to_thread import run_sync

ROOT = "/memories"
MAX_LINES = 999_999
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4095
FOLDER_BYTES = 4096
"""The size that most file systems report for a folder; ours have none."""
SNIPPET_LINES = 2
"""Lines shown before and after a replacement."""


class MemoristMemoryTool(BetaAbstractMemoryTool):
    """The memory tool over the user's own files, or over the memory store with the id `store`."""

    def __init__(
        self,
        scope: Scope,
        *,
        store: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        if store is not None and not store.startswith(STORE):
            raise Invalid(
                field="store",
                problem=f"must be the id of a memory store, {STORE}…, not {store!r}",
            )
        require_local_scope(scope)
        self._files = Files(scope) if store is None else StoreFiles(scope, store)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the lines of a file, or the listing of a folder."""
        path = _parse_path(command.path)
        try:
            self._files.check()
        except NotFound as error:
            raise ToolError(str(error)) from error
        file = self._require_path(self._files, path, command.path)
        if file is None:
            return _listing(command.path, path, list(self._files.under(path)))
        lines = file.value["text"].split("\n")
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
        start = 0
        end = len(lines)
        if command.view_range and len(command.view_range) == 2:
            start = max(1, command.view_range[0]) - 1
            last_line = command.view_range[1]
            end = len(lines) if last_line == -1 else last_line
        numbered = _number_lines(lines[start:end], start + 1)
        return f"Here's the content of {command.path} with line numbers:\n{numbered}"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file and its parent folders."""
        path = _parse_path(command.path)

        def work(files: Files) -> str | Exception:
            if not path or _find(files, path, command.path) is not None:
                raise ToolError(f"File {command.path} already exists")
            _check_names(path, command.path)
            depth = _usable_depth(path)
            if files.make_folders(path[: min(depth, len(path) - 1)]) is not None:
                raise _os_error(errno.ENOTDIR, command.path)
            if depth < len(path):
                return _os_error(errno.ENAMETOOLONG, command.path)
            try:
                command.file_text.encode()
            except (AttributeError, UnicodeEncodeError) as error:
                # As with the SDK's tool, the file is there and empty.
                files.put(path, "")
                return error
            files.put(path, command.file_text)
            return f"File created successfully at: {command.path}"

        return self._change(work)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace text that occurs exactly once in a file."""

        def replace(text: str) -> tuple[str, str]:
            count = text.count(command.old_str)
            if count == 0:
                raise ToolError(
                    f"No replacement was performed, old_str `{command.old_str}` did not appear "
                    f"verbatim in {command.path}."
                )
            if count > 1:
                lines = ", ".join(map(str, _lines_with(text, command.old_str)))
                raise ToolError(
                    "No replacement was performed. Multiple occurrences of old_str "
                    f"`{command.old_str}` in lines: {lines}. Please ensure it is unique"
                )
            line = text.count("\n", 0, text.find(command.old_str))
            new = text.replace(command.old_str, command.new_str)
            first = max(0, line - SNIPPET_LINES)
            snippet = new.split("\n")[first : line + SNIPPET_LINES + 1]
            answer = (
                "The memory file has been edited. "
                "Here is the snippet showing the change (with line numbers):\n"
            )
            return new, answer + _number_lines(snippet, first + 1)

        return self._edit(command.path, replace)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text after a line."""

        def insert(text: str) -> tuple[str, str]:
            lines = text.removesuffix("\n").split("\n") if text else []
            if command.insert_line < 0 or command.insert_line > len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            new = "\n".join(lines)
            if not new.endswith("\n"):
                new += "\n"
            return new, f"The file {command.path} has been edited."

        return self._edit(command.path, insert)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with everything in it."""
        path = _parse_path(command.path)
        if not path:
            raise ToolError("Cannot delete the /memories directory itself")

        def work(files: Files) -> str:
            item = _find(files, path, command.path)
            if item is None:
                raise ToolError(f"The path {command.path} does not exist")
            for removed in _with_contents(files, item):
                files.remove(removed)
            return f"Successfully deleted {command.path}"

        return self._change(work)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with everything in it, to a free path."""
        old = _parse_path(command.old_path)
        new = _parse_path(command.new_path)
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")

        def work(files: Files) -> str | Exception:
            if not new or _find(files, new, command.new_path) is not None:
                raise ToolError(f"The destination {command.new_path} already exists")
            # As in the SDK's tool, the folders are created even if the move then fails.
            _check_names(new, command.new_path)
            depth = _usable_depth(new)
            blocking = files.make_folders(new[: min(depth, len(new) - 1)])
            old_error = _path_error(files, old)
            old_parent_error = _path_error(files, old[:-1], is_folder=True)
            if blocking is not None and (path_of(blocking) != new[:-1] or not old_parent_error):
                return _os_error(errno.ENOTDIR, command.new_path)
            if depth < len(new) - 1:
                return _os_error(errno.ENAMETOOLONG, command.new_path)
            if old_error not in (0, errno.ENOENT):
                return _os_error(old_error, command.old_path)
            item = files.find(old)
            if item is None:
                return ToolError(f"The path {command.old_path} does not exist")
            if depth < len(new):
                return _os_error(errno.ENAMETOOLONG, command.new_path)
            if new[: len(old)] == old:
                return _os_error(errno.EINVAL, command.old_path)
            for moved in _with_contents(files, item):
                target = new + path_of(moved)[len(old) :]
                _check_names(target, f"{ROOT}/{'/'.join(target)}")
                files.move(moved, target)
            return f"Successfully renamed {command.old_path} to {command.new_path}"

        return self._change(work)

    def clear_all_memory(self) -> str:
        """Delete everything."""

        def work(files: Files) -> str:
            for item in list(files.under()):
                files.remove(item)
            return "All memory cleared"

        return self._change(work)

    def _edit(self, raw_path: str, edit: Callable[[str], tuple[str, str]]) -> str:
        """Change the text of a file; `edit` returns the new text and the answer."""
        path = _parse_path(raw_path)

        def work(files: Files) -> str:
            file = self._require_path(files, path, raw_path)
            if file is None:
                raise ToolError(f"The path {raw_path} is not a file.")
            text, answer = edit(file.value["text"])
            text.encode()  # Raises the error of the SDK's tool for unpaired surrogates.
            files.put(path, text, file)
            return answer

        return self._change(work)

    def _require_path(self, files: Files, path: Path, raw_path: str) -> Item | None:
        """Return the file at a path, None for a folder; raise if there is neither."""
        if not path:
            return None
        item = _find(files, path, raw_path)
        if item is None:
            raise ToolError(f"The path {raw_path} does not exist. Please provide a valid path.")
        return item if is_file(item) else None

    def _change(self, work: Callable[[Files], str | Exception]) -> str:
        """Run work in one transaction. A raised error rolls it back, a returned one does not."""

        def checked(files: Files) -> str | Exception:
            files.check()
            return work(files)

        try:
            result = self._files.change(checked)
        except Invalid as error:
            raise ToolError(_refusal(error)) from error
        except NotFound as error:
            raise ToolError(str(error)) from error
        if isinstance(result, Exception):
            raise result
        return result


class MemoristAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for the SDK's asynchronous client; each command runs in a thread."""

    def __init__(
        self,
        scope: Scope,
        *,
        store: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemoristMemoryTool(scope, store=store)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the lines of a file, or the listing of a folder."""
        return await run_sync(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file and its parent folders."""
        return await run_sync(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace text that occurs exactly once in a file."""
        return await run_sync(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text after a line."""
        return await run_sync(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with everything in it."""
        return await run_sync(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with everything in it, to a free path."""
        return await run_sync(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Delete everything."""
        return await run_sync(self._tool.clear_all_memory)


def _parse_path(raw_path: str) -> Path:
    """Return the names of a path below /memories, with `..` resolved."""
    if not raw_path.startswith(ROOT):
        raise ToolError(f"Path must start with /memories, got: {raw_path}")
    if "\0" in raw_path:
        raise ValueError("embedded null byte")
    raw_path.encode("utf-8", "surrogateescape")  # Raises what a file system raises.
    names = [ROOT]
    for name in raw_path[len(ROOT) :].split("/"):
        if name == "..":
            if not names:
                raise _escape_error(raw_path)
            names.pop()
        elif name not in ("", "."):
            names.append(name if names else f"/{name}")
    if names[:1] != [ROOT]:
        raise _escape_error(raw_path)
    if len("/".join(names).encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        raise _os_error(errno.ENAMETOOLONG, raw_path)
    return tuple(names[1:])


def _usable_depth(path: Path) -> int:
    """Return the number of names before the first one that is too long for a file system."""
    for depth, name in enumerate(path):
        if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
            return depth
    return len(path)


def _find(files: Files, path: Path, raw_path: str) -> Item | None:
    """Return the file or folder at a path, or None; a name that is too long raises an error."""
    depth = _usable_depth(path)
    if depth == len(path):
        return files.find(path)
    if _path_error(files, path[:depth], is_folder=True) == 0:
        raise _os_error(errno.ENAMETOOLONG, raw_path)
    return None


def _check_names(path: Path, raw_path: str) -> None:
    """Raise an error if a disk accepts the names of a path, but the database does not."""
    if len(path) > MAX_LEVELS:
        raise ToolError(
            f"Path {raw_path} has {len(path)} levels; at most {MAX_LEVELS} are allowed. "
            "Use fewer folders."
        )
    for name in path[: _usable_depth(path)]:
        try:
            canonical.key(name, "path")
        except Invalid as error:
            raise ToolError(
                f"Path {raw_path} cannot be used: a name in it {error.problem}. Use another name."
            ) from error


def _refusal(error: Invalid) -> str:
    """Return an error of the database in words that a model understands."""
    if not isinstance(error, TooLarge):
        return f"Nothing was changed: {error.problem}."
    if error.field == "value":
        return f"The file is too large: {error.size} bytes; at most {error.limit} are allowed."
    return "The path is too long. Use shorter names or fewer folders."


def _escape_error(raw_path: str) -> ToolError:
    return ToolError(f"Path {raw_path} would escape /memories directory")


def _os_error(number: int, raw_path: str) -> OSError:
    """Return the error that a file system raises, so that the model reads the same text."""
    return OSError(number, os.strerror(number), raw_path)


def _path_error(files: Files, path: Path, *, is_folder: bool = False) -> int:
    """Return the errno of looking up a path, 0 if it exists; `is_folder`: as a folder."""
    for depth, name in enumerate(path):
        if _usable_depth((name,)) == 0:
            return errno.ENAMETOOLONG
        item = files.find(path[: depth + 1])
        if item is None:
            return errno.ENOENT
        if is_file(item) and (is_folder or depth + 1 < len(path)):
            return errno.ENOTDIR
    return 0


def _with_contents(files: Files, item: Item) -> list[Item]:
    """Return a file, or a folder with everything in it."""
    return [item] if is_file(item) else [item, *files.under(path_of(item))]


def _lines_with(text: str, part: str) -> list[int]:
    """Return the line of each occurrence, overlapping ones included."""
    lines: list[int] = []
    line = 1
    counted = 0
    position = text.find(part)
    while position != -1:
        line += text.count("\n", counted, position)
        lines.append(line)
        counted = position
        position = text.find(part, position + 1)
    return lines


def _number_lines(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def _listing(raw_path: str, path: Path, items: list[Item]) -> str:
    """List a folder two levels deep, without hidden items."""
    lines = [
        f"Here're the files and directories up to 2 levels deep in {raw_path}, "
        "excluding hidden items:",
        f"{_format_size(FOLDER_BYTES)}\t{raw_path}",
    ]
    for item in sorted(items, key=path_of):
        names = path_of(item)[len(path) :]
        if len(names) > 2 or any(name.startswith(".") for name in names):
            continue
        item_path = f"{raw_path}/{'/'.join(names)}"
        if is_file(item):
            size = len(item.value["text"].encode())
            lines.append(f"{_format_size(size)}\t{item_path}")
        else:
            lines.append(f"{_format_size(FOLDER_BYTES)}\t{item_path}/")
    return "\n".join(lines)


def _format_size(size: int) -> str:
    """Return a size for people: 0B, 512B, 4K, 1.5M."""
    exponent = min((size.bit_length() - 1) // 10, 3) if size else 0
    unit = "BKMG"[exponent]
    amount = size / 1024**exponent
    return f"{amount:.0f}{unit}" if amount.is_integer() else f"{amount:.1f}{unit}"
