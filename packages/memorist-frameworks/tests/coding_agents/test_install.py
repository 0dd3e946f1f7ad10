"""Installation: the files of every host, the diff, and removal to the byte."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coding_agents.conftest import Hooks
from memorist.cli.main import main
from memorist_frameworks.coding_agents import jsonc
from memorist_frameworks.coding_agents.hosts import HOSTS, Place, hook_seconds
from memorist_frameworks.coding_agents.install import is_own_hook

ROOT = Path(__file__).parents[4]
SCOPES = ("--user", "--project")
FILES = {
    ("claude-code", "--user"): ["home/.claude.json", "home/.claude/settings.json"],
    ("claude-code", "--project"): ["shop/.claude/settings.json", "shop/.mcp.json"],
    ("codex", "--user"): ["home/.codex/config.toml", "home/.codex/hooks.json"],
    ("codex", "--project"): ["shop/.codex/config.toml", "shop/.codex/hooks.json"],
    ("cursor", "--user"): ["home/.cursor/hooks.json", "home/.cursor/mcp.json"],
    ("cursor", "--project"): ["shop/.cursor/hooks.json", "shop/.cursor/mcp.json"],
    ("vscode", "--user"): ["home/.config/Code/User/mcp.json", "home/.copilot/hooks/memorist.json"],
    ("vscode", "--project"): ["shop/.github/hooks/memorist.json", "shop/.vscode/mcp.json"],
    ("gemini", "--user"): ["home/.gemini/settings.json"],
    ("gemini", "--project"): ["shop/.gemini/settings.json"],
    ("opencode", "--user"): [
        "home/.config/opencode/opencode.json",
        "home/.config/opencode/plugins/memorist.js",
    ],
    ("opencode", "--project"): ["shop/.opencode/plugins/memorist.js", "shop/opencode.json"],
}
SERVER_PATHS = {
    "claude-code": ("mcpServers", "memorist"),
    "codex": ("mcp_servers", "memorist"),
    "cursor": ("mcpServers", "memorist"),
    "vscode": ("servers", "memorist"),
    "gemini": ("mcpServers", "memorist"),
    "opencode": ("mcp", "memorist"),
}
OTHER_JSON = """\
// my settings
{
    "theme": "dark", // keep it dark
    /* servers */
    "mcpServers": {
        "files": {"command": "files", "args": []}, // local
    },
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}
        ]
    }
}
"""
OTHER_TOML = """\
# my settings
model = "gpt-5"

[mcp_servers.files] # local
command = "files"
"""


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, without those of memorist itself."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".local/share/memorist" not in str(file)
    }


def folders(folder: Path) -> list[Path]:
    """Return the folders below a folder, also those of memorist."""
    return sorted(file for file in folder.rglob("*") if file.is_dir())


def read(file: Path) -> Any:
    text = file.read_text()
    return tomllib.loads(text) if file.suffix == ".toml" else jsonc.parse(text).value


def install(host: str, scope: str, *options: str) -> int:
    return main(["install", host, scope, "--force", "--yes", *options])


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_a_host_gets_its_files_and_loses_them_again(
    host: str, scope: str, project: Path, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    folders_before = folders(tmp_path)
    assert install(host, scope) == 0
    assert sorted(tree(tmp_path).keys() - before.keys()) == FILES[host, scope]
    group, name = SERVER_PATHS[host]
    documents = [read(tmp_path / file) for file in FILES[host, scope] if not file.endswith(".js")]
    (server,) = [document[group][name] for document in documents if group in document]
    words = server["command"] if host == "opencode" else server["args"]
    assert words[-2:] == ["mcp", "--project"]
    hooks = [document["hooks"] for document in documents if "hooks" in document]
    if host == "opencode":
        assert "hook" in (tmp_path / FILES[host, scope][-1 if scope == "--user" else 0]).read_text()
    else:
        assert list(hooks[0]) == list(HOSTS[host].events)
        assert all(is_own_hook(items[0]) for items in hooks[0].values())
    assert main(["uninstall", host, scope, "--yes"]) == 0
    assert tree(tmp_path) == before
    assert folders(tmp_path) == folders_before


def test_folders_of_others_stay(project: Path, home: Path, tmp_path: Path) -> None:
    (home / ".codex").mkdir()  # empty, but not made by memorist
    for host in ("codex", "vscode", "opencode", "cursor"):
        assert install(host, "--user") == 0
    (home / ".cursor" / "rules").mkdir()
    for host in ("vscode", "cursor", "codex", "opencode"):
        assert main(["uninstall", host, "--user", "--yes"]) == 0
    assert folders(home) == [home / ".codex", home / ".cursor", home / ".cursor" / "rules"]


def test_the_memory_stays_when_the_last_host_is_removed(
    hooks: Hooks, project: Path, home: Path
) -> None:
    assert install("gemini", "--user") == 0
    hooks.read(lambda scope: scope.notes.overwrite("Use uv."))
    assert main(["uninstall", "gemini", "--user", "--yes"]) == 0
    assert hooks.read(lambda scope: scope.notes.read().text) == "Use uv."
    assert not (home / ".gemini").exists()


@pytest.mark.parametrize("scope", SCOPES)
def test_the_hooks_of_vs_code_are_valid_for_copilot(
    scope: str, project: Path, tmp_path: Path
) -> None:
    """Copilot CLI reads the same file: names in PascalCase stand for VS Code's payloads."""
    assert install("vscode", scope) == 0
    (name,) = [name for name in FILES["vscode", scope] if "hooks" in name]
    document = read(tmp_path / name)
    assert list(document) == ["version", "hooks"]
    assert document["version"] == 1
    assert list(document["hooks"]) == ["SessionStart", "PreCompact", "Stop"]
    for entries in document["hooks"].values():
        (entry,) = entries
        assert entry.keys() == {"type", "command", "timeout"}
        assert entry["type"] == "command"


@pytest.mark.parametrize("scope", SCOPES)
def test_codex_needs_no_feature_flag(scope: str, project: Path, tmp_path: Path) -> None:
    """Hooks are on by default; `codex_hooks` is a deprecated name of the flag."""
    assert install("codex", scope) == 0
    settings, hooks = (read(tmp_path / name) for name in FILES["codex", scope])
    assert list(settings) == ["mcp_servers"]
    for (group,) in hooks["hooks"].values():
        assert group.keys() == {"hooks"}
        (entry,) = group["hooks"]
        assert entry.keys() == {"type", "command", "timeout"}


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_files_of_others_are_restored_to_the_byte(
    host: str, scope: str, project: Path, tmp_path: Path
) -> None:
    for name in FILES[host, scope]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".js":
            file.write_text(OTHER_TOML if file.suffix == ".toml" else OTHER_JSON)
    before = tree(tmp_path)
    folders_before = folders(tmp_path)
    assert install(host, scope) == 0
    for name, content in before.items():
        after = (tmp_path / name).read_text()
        assert "my settings" in after
        if not name.endswith(".toml"):
            assert '"theme": "dark", // keep it dark\n' in after
            others = json.loads(json.dumps(read(tmp_path / name)))
            assert others["theme"] == "dark"
            assert others["mcpServers"]["files"] == {"command": "files", "args": []}
            assert others["hooks"]["Stop"][0]["hooks"][0]["command"] == "say done"
        assert after.encode() != content
    assert install(host, scope) == 0  # again: nothing changes
    assert main(["uninstall", host, scope, "--yes"]) == 0
    assert tree(tmp_path) == before
    assert folders(tmp_path) == folders_before


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_what_others_changed_since_stays(
    host: str, scope: str, project: Path, tmp_path: Path
) -> None:
    """A host may write its settings again, in its own form."""
    assert install(host, scope) == 0
    for name in FILES[host, scope]:
        file = tmp_path / name
        if file.suffix == ".toml":
            file.write_text(f'{file.read_text()}\n[projects."/x"]\ntrust_level = "trusted"\n')
        elif file.suffix == ".json":
            file.write_text(json.dumps({**read(file), "added": [1]}, indent=4))
    assert main(["uninstall", host, scope, "--yes"]) == 0
    for name in FILES[host, scope]:
        file = tmp_path / name
        if file.suffix == ".toml":
            assert read(file) == {"projects": {"/x": {"trust_level": "trusted"}}}
        elif file.suffix == ".json":
            assert read(file) in ({"added": [1]}, {"version": 1, "added": [1]})
        else:
            assert not file.exists()


@pytest.mark.parametrize("text", ["", "\n", "{}", "{}\n", "{ }", '{"a":1}', "[", "\ufeff{}"])
def test_small_files(text: str, project: Path) -> None:
    file = project / ".mcp.json"
    file.write_text(text, newline="")
    status = install("claude-code", "--project")
    if text == "[":
        assert status == 2
    else:
        assert "memorist" in read(file)["mcpServers"]
        assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    assert file.read_bytes() == text.encode()


def test_windows_line_ends_and_tabs_stay(project: Path) -> None:
    file = project / ".mcp.json"
    text = '{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n'
    file.write_bytes(text.encode())
    assert install("claude-code", "--project") == 0
    after = file.read_bytes().decode()
    assert after.count("\n") == after.count("\r\n")
    assert '\r\n\t\t"memorist": {\r\n\t\t\t"type"' in after
    assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    assert file.read_bytes().decode() == text


@pytest.mark.parametrize(
    ("host", "name", "text", "line"),
    [
        (
            "claude-code",
            ".mcp.json",
            '{\n  "a": 1\n  "b": 2\n}\n',
            "line 3: a comma or } is missing",
        ),
        (
            "claude-code",
            ".claude/settings.json",
            '{"hooks": []}\n',
            "line 1: hooks is not an object",
        ),
        ("gemini", ".gemini/settings.json", "{\n\n  nope\n}", "line 3: a key in quotes is missing"),
        ("codex", ".codex/config.toml", 'a = 1\nb = "x\n', "line 2:"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "mcp_servers is an inline table"),
        ("cursor", ".cursor/mcp.json", '{"a": "\xff"}', "line 1 is not UTF-8 text"),
    ],
)
def test_a_broken_file_is_left_as_it_is(
    host: str,
    name: str,
    text: str,
    line: str,
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("latin-1"))
    before = tree(tmp_path)
    assert install(host, "--project") == 2
    message = capsys.readouterr().err
    assert str(file) in message
    assert line in message
    assert tree(tmp_path) == before


def test_an_entry_of_the_same_name_is_not_replaced(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"memorist": {"command": "mine"}}}')
    before = tree(tmp_path)
    assert install("claude-code", "--project") == 2
    assert "mcpServers.memorist exists" in capsys.readouterr().err
    assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    assert tree(tmp_path) == before


def test_a_dry_run_only_shows_the_diff(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "codex", "--force", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "+[mcp_servers.memorist]" in shown
    assert "+++ " in shown
    assert tree(tmp_path) == {}


def test_nothing_changes_without_consent(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "codex", "--force"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert tree(tmp_path) == {}


def test_a_host_that_is_not_installed_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["install", "gemini", "--yes"]) == 2
    message = capsys.readouterr().err
    assert "Gemini CLI was not found" in message
    assert "--force" in message
    assert main(["install", "gemini", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "Note: Gemini CLI was not found" in shown.err
    assert "+++ " in shown.out


def test_a_new_version_replaces_its_own_entries(project: Path, tmp_path: Path) -> None:
    assert install("claude-code", "--user") == 0
    assert install("claude-code", "--user", "--database", "sqlite:////srv/memory.db") == 0
    settings = read(tmp_path / "home/.claude/settings.json")
    assert [len(items) for items in settings["hooks"].values()] == [1] * 5
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert "--database sqlite:////srv/memory.db" in command
    assert main(["uninstall", "claude-code", "--user", "--yes"]) == 0
    assert tree(tmp_path) == {}


def test_what_the_host_wrote_into_a_created_file_stays(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "home/.claude.json"
    assert install("claude-code", "--user") == 0
    file.write_text(json.dumps({**read(file), "projects": {"/work": {}}}, indent=2))
    assert install("claude-code", "--user", "--database", "sqlite:////srv/memory.db") == 0
    assert main(["uninstall", "claude-code", "--user", "--yes"]) == 0
    assert read(file) == {"projects": {"/work": {}}}


def test_of_a_repeated_entry_only_the_own_is_removed(project: Path) -> None:
    file = project / ".mcp.json"
    assert install("claude-code", "--project") == 0
    server = json.dumps(read(file)["mcpServers"]["memorist"])
    mine = '{"command": "mine"}'
    file.write_text(f'{{"mcpServers": {{"memorist": {mine}, "memorist": {server}}}}}')
    assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    assert file.read_text() == f'{{"mcpServers": {{"memorist": {mine}}}}}'


def test_a_comment_in_a_created_file_stays(project: Path) -> None:
    file = project / ".mcp.json"
    assert install("claude-code", "--project") == 0
    file.write_text("// mine\n" + file.read_text())
    assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    assert file.read_text() == "// mine\n{}\n"


def test_hooks_of_others_in_the_same_group_stay(project: Path) -> None:
    file = project / ".claude" / "settings.json"
    assert install("claude-code", "--project") == 0
    settings = read(file)
    own = {"type": "command", "command": "say done"}
    settings["hooks"]["Stop"][0]["hooks"].append(own)
    settings["hooks"]["PreCompact"][0]["hooks"].insert(0, own)
    file.write_text(json.dumps(settings, indent=2))
    assert main(["uninstall", "claude-code", "--project", "--yes"]) == 0
    group = [{"hooks": [own]}]
    assert read(file) == {"hooks": {"PreCompact": group, "Stop": group}}


@pytest.mark.parametrize(
    ("command", "is_own"),
    [
        ("memorist hook codex Stop || exit 0", True),
        ("'/home/a b/memorist' hook codex Stop --database x || exit 0", True),
        ('"C:\\a b\\memorist.exe" hook codex Stop', True),
        ("/usr/bin/memoristic hook codex Stop", False),
        ("/usr/bin/memoristic hook pre-commit run", False),
        ("/usr/bin/memorist hook pre-commit run", False),
        ("echo /usr/bin/memorist hook codex Stop", False),
    ],
)
def test_hooks_of_memorist_are_recognized(command: str, is_own: bool) -> None:
    assert is_own_hook({"hooks": [{"command": command}]}) is is_own


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_around_a_removed_table_stay(newline: str, project: Path) -> None:
    file = project / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(OTHER_TOML, newline=newline)
    before = file.read_bytes()
    assert install("codex", "--project") == 0
    more = '\n# about the next\n\n# table\n[tui]\ntheme = "dark"\n'.replace("\n", newline).encode()
    file.write_bytes(file.read_bytes() + more)
    assert main(["uninstall", "codex", "--project", "--yes"]) == 0
    assert file.read_bytes() == before + more


@pytest.mark.parametrize(
    "url", ["postgresql://ada:s3cret@db/x", "postgresql://db/x?user=ada&password=s3cret"]
)
def test_a_password_is_not_written(
    url: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install("claude-code", "--project", "--database", url) == 2
    message = capsys.readouterr().err
    assert ".config/memorist/memorist.yaml" in message
    assert "s3cret" not in message
    assert tree(tmp_path) == {}


def test_only_the_user_reads_new_files(project: Path, home: Path) -> None:
    mask = os.umask(0o022)
    try:
        assert install("claude-code", "--user") == 0
        assert install("claude-code", "--project") == 0
    finally:
        os.umask(mask)
    data = home / ".local/share/memorist"
    files = (home / ".claude.json", home / ".claude/settings.json", data / "installed.json")
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3
    assert data.stat().st_mode & 0o777 == 0o700
    assert (project / ".mcp.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("is_edited", [False, True])
def test_the_files_of_the_installation_are_cleaned(
    is_edited: bool, project: Path, tmp_path: Path
) -> None:
    """OpenCode prefers an opencode.jsonc, which may appear later."""
    assert install("opencode", "--project") == 0
    file = project / "opencode.json"
    if is_edited:
        file.write_text(json.dumps({**read(file), "theme": "dark"}))
    (project / "opencode.jsonc").write_text("{}\n")
    assert install("codex", "--project") == 0
    assert main(["uninstall", "opencode", "--project", "--yes"]) == 0
    rest = {name for name in tree(project) if not name.startswith(".codex")}
    assert "opencode.jsonc" in rest
    assert rest - {"opencode.jsonc"} == ({"opencode.json"} if is_edited else set())
    assert not is_edited or read(file) == {"theme": "dark"}
    assert "memorist" in (project / ".codex/config.toml").read_text()


def test_a_program_in_the_cache_of_uv_is_named(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "cache/uv/archive-v0/x1/bin/memorist"
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert install("codex", "--project") == 0
    assert "uv tool install" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/memorist")])
    assert install("codex", "--project") == 0
    assert "uv tool install" not in capsys.readouterr().err


def test_a_linked_file_stays_a_link(project: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}\n")
    target.chmod(0o640)
    (project / ".mcp.json").symlink_to(target)
    assert install("claude-code", "--project") == 0
    assert (project / ".mcp.json").is_symlink()
    assert "memorist" in read(target)["mcpServers"]
    assert target.stat().st_mode & 0o777 == 0o640


def test_status_shows_what_the_hooks_did(
    hooks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from coding_agents.transcripts import CLAUDE_CODE

    file = tmp_path / "t.jsonl"
    file.write_text(CLAUDE_CODE)
    hooks.call("claude-code", "Stop", transcript_path=str(file))
    capsys.readouterr()
    assert main(["status", "--project"]) == 0
    assert "saved 3 messages" in capsys.readouterr().out
    assert main(["status", "--project", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["hooks"][0]["result"] == "saved 3 messages"
    assert shown["rows"]["messages"] == 3


def test_every_hook_names_a_time_limit() -> None:
    """Hosts end hooks without one at a limit of their own, which may be one second."""
    for host in HOSTS.values():
        place = Place(Path("/h"), Path("/p"))
        hooks = [
            entry for entry in host.additions(host, place, ["memorist"]) if entry.kind == "item"
        ]
        assert len(hooks) == (0 if host.name == "opencode" else len(host.events))
        for entry in hooks:
            event = entry.path[1]
            (hook,) = entry.value.get("hooks", [entry.value])
            seconds = hook["timeout"] / (1000 if host.name == "gemini" else 1)
            own = hook_seconds(host.name, event, host.events[event])
            assert 0 < own < seconds < 60
            if (host.name, event) == ("codex", "SessionEnd"):
                assert seconds == 3  # Codex allows no more


def test_the_plugin_of_claude_code_has_the_same_entries() -> None:
    host = HOSTS["claude-code"]
    server, *hooks = host.additions(host, Place(Path("/h"), Path("/p")), ["memorist"])
    plugin = ROOT / "plugins" / "claude-code"
    assert read(plugin / ".mcp.json") == {"mcpServers": {"memorist": server.value}}
    expected = {hook.path[1]: [hook.value] for hook in hooks}
    assert read(plugin / "hooks" / "hooks.json")["hooks"] == expected
    manifest = read(plugin / ".claude-plugin" / "plugin.json")
    assert manifest["name"] == "memorist"
    assert "version" not in manifest  # the commit is the version
    market = read(ROOT / ".claude-plugin" / "marketplace.json")
    assert (ROOT / market["plugins"][0]["source"]).resolve() == plugin
