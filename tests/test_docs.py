"""The documentation: links have targets, examples run, generated pages are up to date."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from memorist import Memory
from memorist.base import errors
from memorist.base.settings import NAMES
from memorist.chat.enter_session import USER
from memorist.server.http.app import create_app
from memorist.storage.transfer.erase import NOT_REACHED
from testkit.databases import SETTINGS
from testkit.serving import serving

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_has_a_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{target} is missing"


def test_the_privacy_guide_lists_what_an_erasure_does_not_reach() -> None:
    guide = (ROOT / "docs/guides/privacy.md").read_text(encoding="utf-8")
    for item in NOT_REACHED:
        assert f"- {item}" in guide


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    for target in re.findall(
        r"`((?:tests|src|docs|scripts|bench)/[\w/]+(?:\.\w+)?)`", page.read_text(encoding="utf-8")
    ):
        created = "bookmarks" in target  # by the walkthrough that adds a kind
        assert created or (ROOT / target).exists(), f"{target} is missing"


@pytest.mark.parametrize("script", ["generate_aio.py", "generate_docs.py"])
def test_generated_files_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_setting_is_documented() -> None:
    for page in ("docs/reference/settings.md", "memorist.example.yaml"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert all(setting in text for setting in NAMES)


def test_every_error_is_documented() -> None:
    tree = errors.__doc__ or ""
    for item in vars(errors).values():
        if isinstance(item, type) and issubclass(item, errors.MemoristError):
            assert item.__name__ in tree


def test_the_readme_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    embedded, over_http, framework = code
    subprocess.run([sys.executable, "-c", embedded], check=True, cwd=tmp_path)
    with Memory.open(f"sqlite:///{tmp_path}/agent.db") as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.active().id
        assert [message.seq for message in me.messages.window(session)] == [1, 2]
        theirs = memory.scope(user=USER, agent="assistant")
        talk = theirs.sessions.add().id
        theirs.messages.append(talk, "user", "My sister Clara moved to Lisbon.")
        with serving(create_app(memory)) as url:
            here = over_http.replace("http://127.0.0.1:7700", url)
            assert here != over_http
            result = subprocess.run(
                [sys.executable, "-c", here],
                check=True,
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
        assert result.stdout.startswith("messages My sister Clara moved to Lisbon.\n")
    result = subprocess.run(
        [sys.executable, "-c", framework], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stdout == "{'text': 'Clara moved to Lisbon.'}\n"


SHOWN = {
    "frameworks/adk": "",
    "frameworks/agent-framework": "Noted.",
    "frameworks/anthropic": "['modified', 'created']",
    "guides/graph": "Clara",
    "guides/importing": "'conversations': 1",
    "guides/items": "Ada drinks green tea. 1",
    "frameworks/langchain": "Hello Ada.",
    "frameworks/langgraph": "{'text': 'The user is called Ada.'}",
    "frameworks/openai-agents": "user My sister lives in Lisbon.\nassistant Noted.",
    "frameworks/pydantic-ai": "success",
}
"""What the code of a page prints."""
ASKS_CLAUDE = "anthropic.Anthropic()"
EXPORTED = {
    "id": "1",
    "author": {"role": "user"},
    "content": {"content_type": "text", "parts": ["Hello"]},
}


@pytest.mark.parametrize("page", SHOWN)
def test_the_code_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the blocks in order, beside a server that needs no key."""
    monkeypatch.chdir(tmp_path)
    talk = {
        "id": "c",
        "title": "Talk",
        "mapping": {"1": {"id": "1", "parent": None, "children": [], "message": EXPORTED}},
    }
    Path("conversations.json").write_text(json.dumps([talk]), encoding="utf-8")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    with (
        Memory.open("sqlite:///agent.db", settings=SETTINGS) as memory,
        serving(create_app(memory)) as url,
    ):
        names: dict[str, Any] = {"__name__": "page"}
        for block in blocks:
            if ASKS_CLAUDE not in block:
                here = textwrap.dedent(block).replace("http://127.0.0.1:7700", url)
                exec(compile(here, f"{page}.md", "exec"), names)
        if "memory" in names:
            names["memory"].close()
    assert SHOWN[page] in capsys.readouterr().out


def test_readme_requests_are_of_the_user_that_the_web_app_opens_with() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Over HTTP and MCP")[2].partition("\n## ")[0]
    users = re.findall(r'X-Memorist-User: (\w+)|user="(\w+)"|"--user", "(\w+)"', section)
    assert [name for names in users for name in names if name] == [USER] * 3


def test_the_readme_installs_what_its_examples_import() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (extras,) = re.findall(r"pip install .*'memorist\[([a-z,-]+)\]'", readme)
    used = re.findall(r"^from memorist_frameworks\.(\w+)", readme, re.MULTILINE)
    assert used
    assert {name.replace("_", "-") for name in used} <= set(extras.split(","))
    assert "all" in extras.split(",")


def test_the_readme_shows_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make serve" in readme
    assert "make test" in readme
