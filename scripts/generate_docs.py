"""Write memorist.example.yaml, docs/reference/settings.md and docs/reference/cli.md from the code, and
llms.txt, which lists the documentation for language models, from its pages.

python scripts/generate_docs.py            write the files
python scripts/generate_docs.py --check    fail if a file is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memorist.api.endpoints import ADMIN_ENDPOINTS, ADMIN_KIND_HELP, ENDPOINTS, KIND_HELP
from memorist.base.extensions import COMMANDS as EXTENSIONS
from memorist.base.extensions import extensions
from memorist.base.settings import FIELDS, Settings
from memorist.cli.main import COMMANDS, EXTRA_COMMANDS, load_command, summary_of
from memorist.kinds import KINDS
from memorist.memory import ADMIN_KINDS

ROOT = Path(__file__).parent.parent


def settings_page() -> str:
    """Return a table of every setting."""
    lines = [
        "# Settings",
        "",
        "memorist reads settings from a YAML file (`memorist.yaml` in the current folder, or the file that `MEMORIST_CONFIG` or",
        "`--config` names), then from the environment, then from flags. Later ones override earlier ones. An unknown name is an error.",
        "Every command takes any setting as `--set NAME=VALUE`.",
        "`memorist config show` prints each value and where it comes from; `memorist config example` prints a file with every",
        "default. The environment variable of a setting is `MEMORIST_` and its name in capitals, such as `MEMORIST_BASE_URL`.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for setting in FIELDS:
        default = f"`{setting.default}`" if setting.default != "" else "empty"
        meaning = setting.metadata["doc"]
        if variable := setting.metadata["variable"]:
            meaning += f" Also read from `{variable}`."
        lines.append(f"| `{setting.name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Return an example of every verb of every kind and of every other command."""
    lines = [
        "# The command line",
        "",
        "This page is an overview; `--help` after any command describes its options.",
        "Commands take `--database`, `--config` and `--json`, and `--tenant`, `--user` and `--agent` where they apply,",
        "before the command or after it. The examples of a kind leave out its heading, `--user ada` and `--agent scout`:",
        "`add trip` under `memorist sessions` means `memorist sessions add trip --user ada --agent scout`.",
        "",
        'With `--json`, a record is an object, a list with pages is `{"data": […], "next": CURSOR or null}`, and any other',
        "list is an array. Errors are objects on standard error.",
        "",
        "Exit status: 0 success, 1 a check failed or an unexpected error, 2 bad input, 3 not found, 4 conflict,",
        "5 database error, 6 settings error, 7 model or background job failed, 8 not permitted (missing or wrong key, or too many requests), 130 interrupted.",
    ]
    declared = (*ENDPOINTS, *ADMIN_ENDPOINTS)
    by_hand = {name for names in COMMANDS.values() for name in names}
    for kind in (*KINDS, *ADMIN_KINDS):
        endpoints = [
            endpoint
            for endpoint in declared
            if endpoint.kind == kind.name and kind.name not in by_hand and not endpoint.erases
        ]
        if not endpoints:
            continue
        about = (KIND_HELP | ADMIN_KIND_HELP)[kind.name]
        lines += ["", f"## memorist {kind.name}", "", about, ""]
        for endpoint in endpoints:
            about = (inspect.getdoc(getattr(kind, endpoint.verb)) or "").split("\n")[0]
            example = endpoint.example
            if not endpoint.is_admin:
                example = re.sub(r" --(user|agent) \w+", "", example)
                example = example.removeprefix(f"memorist {kind.name} ")
            about = about.removeprefix("Return ")
            lines.append(f"- `{example}`: {about[:1].upper()}{about[1:]}")
    lines += [
        "",
        "## Other commands",
        "",
        "[Operations](../guides/operations.md) describes how to run and maintain a database.",
        "",
    ]
    shown = {endpoint.example for endpoint in ENDPOINTS}
    for about_by_name in COMMANDS.values():
        for name, about in about_by_name.items():
            example = load_command(name).example.splitlines()[0].strip()
            if example not in shown:
                lines.append(f"- `{example}`: {about}")
    for name, extension in extensions(EXTENSIONS).items():
        example = extension.load().example.splitlines()[0].strip()
        extra, _ = EXTRA_COMMANDS[name]
        about = summary_of(name, extension)
        lines.append(f"- `{example}`: {about} (`pip install 'memorist[{extra}]'`)")
    return "\n".join(lines).rstrip() + "\n"


def list_for_models() -> str:
    """Return every page of the documentation with its first sentence, as llmstxt.org proposes."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    lines = ["# memorist", "", f"> {project['site_description']}"]
    section = ""
    for current, title, path in pages(project["nav"]):
        if current != section:
            section = current
            lines += ["", f"## {section}", ""]
        text = first_sentence((ROOT / "docs" / path).read_text(encoding="utf-8"))
        lines.append(f"- [{title}](docs/{path}): {text}")
    return "\n".join(lines) + "\n"


def pages(nav: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield section, title and path of each page of the navigation."""
    for item in nav:
        for title, value in item.items():
            if isinstance(value, str):
                yield "Start", title, value
            else:
                for _, page, path in pages(value):
                    yield title, page, path


def first_sentence(page: str) -> str:
    """Return the first sentence of a page, without links."""
    paragraphs = page.split("\n\n")[1:]
    text = next(part for part in paragraphs if not part.startswith((" ", "#", "```", "![", "1.")))
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text.replace("\n", " "))
    return re.split(r"(?<=\.) |:$", text)[0]


FILES = {
    ROOT / "llms.txt": list_for_models,
    ROOT / "memorist.example.yaml": Settings.example,
    ROOT / "docs" / "reference" / "settings.md": settings_page,
    ROOT / "docs" / "reference" / "cli.md": commands_page,
}


def main() -> int:
    """Write the files, or check them."""
    stale = [
        path
        for path, make in FILES.items()
        if not path.exists() or path.read_text(encoding="utf-8") != make()
    ]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(FILES[path](), encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
