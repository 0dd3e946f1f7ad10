"""The coding agents: where their settings are, and what `memorist install` adds there."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

Task = Literal["start", "prompt", "save", "user", "assistant"]
"""The task of a hook.

start:     add what matters to the context of a session
prompt:    add what is remembered about a prompt
save:      store the new messages of the transcript
user:      store the prompt that the host sends
assistant: store the answer that the host sends
"""
LIMIT_SECONDS: Mapping[Task, int] = {
    "start": 8,
    "prompt": 4,
    "save": 25,
    "user": 4,
    "assistant": 8,
}
"""The time limits of hooks, from the start of their process."""
HOST_MARGIN_SECONDS = 2
"""How much longer the host's own limit is, which its settings name."""
SHORT_LIMITS = {("codex", "SessionEnd"): 3}
"""Limits of hosts that allow no more, in seconds. Without a timeout in its settings, Codex waits one."""
SHORT_MARGIN_SECONDS = 0.5
NAME = "memorist"  # of the entries


@dataclass(frozen=True)
class Addition:
    """Something that installation adds to a file."""

    file: Path
    path: tuple[str, ...] = ()  # of a member of a JSON file, or of a table of a TOML file
    value: Any = None
    kind: Literal["member", "item", "table", "file"] = "member"  # item: of the list at `path`


@dataclass(frozen=True)
class Place:
    """The target of an installation: the user's settings, or those of a project."""

    home: Path
    project: Path | None = None  # None: for all projects of the user

    def user_folder(self, variable: str, *default: str) -> Path:
        """Return a folder of the user that a variable of the host may move."""
        value = os.environ.get(variable) if variable else None
        return Path(value) if value else self.home.joinpath(*default)


@dataclass(frozen=True)
class Host:
    """A coding agent."""

    name: str
    title: str
    program: str  # its command
    events: Mapping[str, Task]  # the host's name of an event → the task of its hook
    folder: Callable[[Place], Path]  # exists if the host is installed
    additions: Callable[[Host, Place, Sequence[str]], list[Addition]]
    note: str = ""  # to print after installation


def hook_seconds(host: str, event: str, task: Task) -> float:
    """Return the time limit of a hook, in seconds from the start of its process."""
    if short := SHORT_LIMITS.get((host, event)):
        return short - SHORT_MARGIN_SECONDS
    return LIMIT_SECONDS[task]


def host_seconds(host: str, event: str, task: Task) -> int:
    """Return the time limit of a hook in the settings of its host, in seconds."""
    return SHORT_LIMITS.get((host, event)) or LIMIT_SECONDS[task] + HOST_MARGIN_SECONDS


def _hook_command(host: Host, event: str, command: Sequence[str]) -> str:
    """Return the shell command of a hook. It succeeds even if memorist is not installed any more."""
    words = [command[0], "hook", host.name, event, *command[1:]]
    if sys.platform == "win32":
        return " ".join(f'"{word}"' if " " in word else word for word in words)
    return f"{shlex.join(words)} || exit 0"


def _mcp(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": ["mcp", "--project", *command[1:]]}


def _hooks(
    host: Host, file: Path, command: Sequence[str], *, has_type: bool = True
) -> list[Addition]:
    """Return the hooks of a host, one for each event."""
    additions = []
    for event, task in host.events.items():
        hook = {
            **({"type": "command"} if has_type else {}),
            "command": _hook_command(host, event, command),
            "timeout": host_seconds(host.name, event, task),
        }
        additions.append(Addition(file, ("hooks", event), hook, "item"))
    return additions


def _claude_hooks(
    host: Host, file: Path, command: Sequence[str], milliseconds: bool = False
) -> list[Addition]:
    """Return the hooks of Claude Code's format, which Codex and Gemini CLI share."""
    additions = []
    for addition in _hooks(host, file, command):
        hook = addition.value
        hook["timeout"] *= 1000 if milliseconds else 1
        additions.append(replace(addition, value={"hooks": [hook]}))
    return additions


def _claude_folder(place: Place) -> Path:
    return place.user_folder("CLAUDE_CONFIG_DIR", ".claude")


def _claude_code(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    if place.project:
        servers = place.project / ".mcp.json"
        settings = place.project / ".claude" / "settings.json"
    else:
        servers = place.user_folder("CLAUDE_CONFIG_DIR") / ".claude.json"
        settings = _claude_folder(place) / "settings.json"
    server = {"type": "stdio", **_mcp(command)}
    return [
        Addition(servers, ("mcpServers", NAME), server),
        *_claude_hooks(host, settings, command),
    ]


def _codex_folder(place: Place) -> Path:
    return place.user_folder("CODEX_HOME", ".codex")


def _codex(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    folder = place.project / ".codex" if place.project else _codex_folder(place)
    return [
        Addition(folder / "config.toml", ("mcp_servers", NAME), _mcp(command), "table"),
        *_claude_hooks(host, folder / "hooks.json", command),
    ]


def _cursor_folder(place: Place) -> Path:
    return place.home / ".cursor"


def _cursor(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    folder = place.project / ".cursor" if place.project else _cursor_folder(place)
    hooks = folder / "hooks.json"
    return [
        Addition(folder / "mcp.json", ("mcpServers", NAME), _mcp(command)),
        Addition(hooks, ("version",), 1),
        *_hooks(host, hooks, command, has_type=False),
    ]


def _vscode_folder(place: Place) -> Path:
    """Return the folder of the default profile."""
    if sys.platform == "darwin":
        return place.home / "Library" / "Application Support" / "Code" / "User"
    if sys.platform == "win32":
        return place.user_folder("APPDATA", "AppData", "Roaming") / "Code" / "User"
    return place.user_folder("XDG_CONFIG_HOME", ".config") / "Code" / "User"


def _vscode(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    if place.project:
        servers = place.project / ".vscode" / "mcp.json"
        hooks = place.project / ".github" / "hooks" / "memorist.json"
    else:
        servers = _vscode_folder(place) / "mcp.json"
        hooks = place.home / ".copilot" / "hooks" / "memorist.json"
    return [
        Addition(servers, ("servers", NAME), {"type": "stdio", **_mcp(command)}),
        Addition(hooks, ("version",), 1),  # Copilot CLI, which reads this file too, rejects it else
        *_hooks(host, hooks, command),
    ]


def _gemini_folder(place: Place) -> Path:
    return place.user_folder("GEMINI_CLI_HOME") / ".gemini"


def _gemini(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    folder = place.project / ".gemini" if place.project else _gemini_folder(place)
    settings = folder / "settings.json"
    return [
        Addition(settings, ("mcpServers", NAME), _mcp(command)),
        *_claude_hooks(host, settings, command, milliseconds=True),
    ]


def _opencode_folder(place: Place) -> Path:
    return place.user_folder("XDG_CONFIG_HOME", ".config") / "opencode"


def _opencode(host: Host, place: Place, command: Sequence[str]) -> list[Addition]:
    """Return an MCP entry, and a plugin that calls the hooks."""
    folder = place.project or _opencode_folder(place)
    plugins = (place.project / ".opencode" if place.project else folder) / "plugins"
    settings = folder / "opencode.jsonc"
    if not settings.exists():
        settings = folder / "opencode.json"
    server = {"type": "local", "command": [command[0], "mcp", "--project", *command[1:]]}
    plugin = resources.files(__package__).joinpath("opencode_plugin.js").read_text("utf-8")
    plugin = plugin.replace('["memorist"]', json.dumps(list(command)))
    return [
        Addition(settings, ("mcp", NAME), {**server, "enabled": True}),
        Addition(plugins / "memorist.js", value=plugin, kind="file"),
    ]


_CLAUDE_EVENTS: dict[str, Task] = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PreCompact": "save",
    "Stop": "save",
    "SessionEnd": "save",
}
HOSTS = {
    host.name: host
    for host in (
        Host("claude-code", "Claude Code", "claude", _CLAUDE_EVENTS, _claude_folder, _claude_code),
        Host(
            "codex",
            "Codex",
            "codex",
            _CLAUDE_EVENTS,
            _codex_folder,
            _codex,
            note="Codex runs new hooks only after you approve them: start codex and enter /hooks.",
        ),
        Host(
            "cursor",
            "Cursor",
            "cursor",
            {
                "sessionStart": "start",
                "beforeSubmitPrompt": "user",
                "afterAgentResponse": "assistant",
            },
            _cursor_folder,
            _cursor,
        ),
        Host(
            "vscode",
            "VS Code",
            "code",
            {"SessionStart": "start", "PreCompact": "save", "Stop": "save"},
            _vscode_folder,
            _vscode,
        ),
        Host(
            "gemini",
            "Gemini CLI",
            "gemini",
            {
                "SessionStart": "start",
                "BeforeAgent": "prompt",
                "PreCompress": "save",
                "AfterAgent": "save",
                "SessionEnd": "save",
            },
            _gemini_folder,
            _gemini,
        ),
        Host(
            "opencode",
            "OpenCode",
            "opencode",
            {"start": "start", "prompt": "prompt", "save": "save"},
            _opencode_folder,
            _opencode,
        ),
    )
}
