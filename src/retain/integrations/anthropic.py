"""Anthropic's memory tool over a scope: Claude's files are in the database, and every answer is, to the byte, the one that
the SDK's own tool gives for a folder on a disk.

A command is one transaction: a folder moves whole or not at all, and of two edits at once each sees what the other did.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from retain.api.files import STORE, Files, Path, StoreFiles, is_file, path_of
from retain.base.errors import Invalid, NotFound
from retain.integrations._require import extra, local
from retain.kinds.items.items import Item
from retain.memory import Scope

with extra("anthropic"):
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
MOST_LINES = 999_999
MOST_BYTES_OF_A_NAME = 255
_FOLDER_BYTES = 4096
"""What a folder has on most disks; here it has no size."""
_AROUND = 2
"""How many lines before and after a replacement are shown."""


class RetainMemoryTool(BetaAbstractMemoryTool):
    """The memory tool, with its files in a scope: the user's own, or in a memory store by its id."""

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
                problem=f"is the id of a memory store, which begins with {STORE}, not {store!r}",
            )
        local(scope)
        self._files = Files(scope) if store is None else StoreFiles(scope, store)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """The lines of a file, or what is in a folder."""
        path = _path(command.path)
        try:
            self._files.check()
        except NotFound as error:
            raise ToolError(str(error)) from error
        found = self._existing(self._files, path, command.path)
        if found is None:
            return _listed(command.path, path, list(self._files.under(path)))
        lines = found.value["text"].split("\n")
        if len(lines) > MOST_LINES:
            raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
        first, last = 0, len(lines)
        if command.view_range and len(command.view_range) == 2:
            first = max(1, command.view_range[0]) - 1
            last = len(lines) if command.view_range[1] == -1 else command.view_range[1]
        return f"Here's the content of {command.path} with line numbers:\n" + _numbered(
            lines[first:last], first + 1
        )

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a new file, and the folders around it."""
        path = _path(command.path)

        def work(files: Files) -> str:
            if not path or files.find(path) is not None:
                raise ToolError(f"File {command.path} already exists")
            if files.make_folders(path[:-1]) is not None:
                raise _failure(errno.ENOTDIR, command.path)
            files.put(path, command.file_text)
            return f"File created successfully at: {command.path}"

        return self._change(work)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace what stands in a file once."""

        def replace(text: str) -> tuple[str, str]:
            count = text.count(command.old_str)
            if count == 0:
                said = f"old_str `{command.old_str}` did not appear verbatim in {command.path}."
                raise ToolError(f"No replacement was performed, {said}")
            if count > 1:
                lines = ", ".join(map(str, _lines_with(text, command.old_str)))
                said = f"Multiple occurrences of old_str `{command.old_str}` in lines: {lines}. Please ensure it is unique"
                raise ToolError(f"No replacement was performed. {said}")
            line = text.count("\n", 0, text.find(command.old_str))
            new = text.replace(command.old_str, command.new_str)
            first = max(0, line - _AROUND)
            shown = _numbered(new.split("\n")[first : line + _AROUND + 1], first + 1)
            said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
            return new, f"{said}\n{shown}"

        return self._edit(command.path, replace)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file, after the line of that number."""

        def insert(text: str) -> tuple[str, str]:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= command.insert_line <= len(lines):
                said = f"It should be within the range [0, {len(lines)}]."
                raise ToolError(f"Invalid `insert_line` parameter: {command.insert_line}. {said}")
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            new = "\n".join(lines)
            return new if new.endswith(
                "\n"
            ) else f"{new}\n", f"The file {command.path} has been edited."

        return self._edit(command.path, insert)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all that is in it."""
        path = _path(command.path)
        if not path:
            raise ToolError("Cannot delete the /memories directory itself")

        def work(files: Files) -> str:
            found = files.find(path)
            if found is None:
                raise ToolError(f"The path {command.path} does not exist")
            for item in [found, *([] if is_file(found) else files.under(path))]:
                files.remove(item)
            return f"Successfully deleted {command.path}"

        return self._change(work)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with all that is in it, to a path where there is nothing."""
        old, new = _path(command.old_path), _path(command.new_path)
        if not old:
            raise ToolError("Cannot rename the /memories directory itself")

        def work(files: Files) -> str | Exception:
            if not new or files.find(new) is not None:
                raise ToolError(f"The destination {command.new_path} already exists")
            blocked = files.make_folders(
                new[:-1]
            )  # also where nothing can be moved there, as the SDK's tool does
            moved = files.find(old)
            around = 0 if moved is not None else _trouble(files, old[:-1])
            if around == errno.ENOTDIR or (
                blocked is not None and (path_of(blocked) != new[:-1] or not around)
            ):
                return _failure(errno.ENOTDIR, command.new_path)
            if moved is None:
                return ToolError(f"The path {command.old_path} does not exist")
            if new[: len(old)] == old:
                return _failure(errno.EINVAL, command.old_path)
            for item in [moved, *([] if is_file(moved) else files.under(old))]:
                files.move(item, new + path_of(item)[len(old) :])
            return f"Successfully renamed {command.old_path} to {command.new_path}"

        return self._change(work)

    def clear_all_memory(self) -> str:
        """Delete everything."""

        def work(files: Files) -> str:
            for item in list(files.under()):
                files.remove(item)
            return "All memory cleared"

        return self._change(work)

    def _edit(self, said: str, edit: Callable[[str], tuple[str, str]]) -> str:
        """Change the text of a file, and answer."""
        path = _path(said)

        def work(files: Files) -> str:
            found = self._existing(files, path, said)
            if found is None:
                raise ToolError(f"The path {said} is not a file.")
            text, answer = edit(found.value["text"])
            files.put(path, text, found)
            return answer

        return self._change(work)

    def _existing(self, files: Files, path: Path, said: str) -> Item | None:
        """The file at a path, None where a folder is."""
        found = files.find(path) if path else None
        if path and found is None:
            raise ToolError(f"The path {said} does not exist. Please provide a valid path.")
        return found if found is not None and is_file(found) else None

    def _change(self, work: Callable[[Files], str | Exception]) -> str:
        """Do it in one transaction, which a failure that is raised undoes, and one that is returned does not."""

        def checked(files: Files) -> str | Exception:
            files.check()
            return work(files)

        try:
            done = self._files.change(checked)
        except (Invalid, NotFound) as error:
            raise ToolError(str(error)) from error
        if isinstance(done, Exception):
            raise done
        return done


class RetainAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the SDK's asynchronous client: each command is one hop to a thread."""

    def __init__(
        self,
        scope: Scope,
        *,
        store: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = RetainMemoryTool(scope, store=store)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """The lines of a file, or what is in a folder."""
        return await run_sync(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a new file, and the folders around it."""
        return await run_sync(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace what stands in a file once."""
        return await run_sync(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file, after the line of that number."""
        return await run_sync(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all that is in it."""
        return await run_sync(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with all that is in it, to a path where there is nothing."""
        return await run_sync(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Delete everything."""
        return await run_sync(self._tool.clear_all_memory)


def _path(said: str) -> Path:
    """The names of a path below /memories, without those that it takes back with `..`."""
    if not said.startswith(ROOT):
        raise ToolError(f"Path must start with /memories, got: {said}")
    if "\0" in said:
        raise ValueError("embedded null byte")
    names = [ROOT]
    for name in said[len(ROOT) :].split("/"):
        if name == ".." and names:
            names.pop()
        elif name == "..":
            break
        elif name not in ("", "."):
            names.append(name if names else f"/{name}")
    else:
        if names[:1] == [ROOT]:
            if any(
                len(name.encode("utf-8", "surrogatepass")) > MOST_BYTES_OF_A_NAME for name in names
            ):
                raise _failure(errno.ENAMETOOLONG, said)
            return tuple(names[1:])
    raise ToolError(f"Path {said} would escape /memories directory")


def _failure(number: int, said: str) -> OSError:
    """What a disk says: a model that is told of it reads the same."""
    return OSError(number, os.strerror(number), said)


def _trouble(files: Files, path: Path) -> int:
    """What a disk would say on the way down to a folder; 0 if it is there."""
    for depth in range(len(path)):
        found = files.find(path[: depth + 1])
        if found is None or is_file(found):
            return errno.ENOENT if found is None else errno.ENOTDIR
    return 0


def _lines_with(text: str, part: str) -> list[int]:
    """The line on which each occurrence begins, also of those that overlap."""
    found: list[int] = []
    line, seen, place = 1, 0, text.find(part)
    while place != -1:
        line += text.count("\n", seen, place)
        found.append(line)
        seen, place = place, text.find(part, place + 1)
    return found


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def _listed(said: str, path: Path, items: list[Item]) -> str:
    """What is in a folder and in the folders in it, but for what is hidden."""
    lines = [f"{_size(_FOLDER_BYTES)}\t{said}"]
    for names, item in sorted(
        [(path_of(item)[len(path) :], item) for item in items], key=lambda one: one[0]
    ):
        if len(names) > 2 or any(name.startswith(".") for name in names):
            continue
        whole = f"{said}/{'/'.join(names)}"
        lines.append(
            f"{_size(len(item.value['text'].encode()))}\t{whole}"
            if is_file(item)
            else f"{_size(_FOLDER_BYTES)}\t{whole}/"
        )
    header = (
        f"Here're the files and directories up to 2 levels deep in {said}, excluding hidden items:"
    )
    return "\n".join([header, *lines])


def _size(count: int) -> str:
    """So many bytes, for people: 0B, 512B, 4K, 1.5M."""
    step = min((count.bit_length() - 1) // 10, 3) if count else 0
    amount = count / 1024**step
    return f"{amount:.0f}{'BKMG'[step]}" if amount.is_integer() else f"{amount:.1f}{'BKMG'[step]}"
