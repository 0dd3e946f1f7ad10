"""The memory of a project: its settings, its database and its owner.

All coding agents that work on a project share one memory: a tenant for each project, in one
database of the user. Hooks run in folders that may come from strangers, so a `memorist.yaml` in the
project is not read: it could name the database of somebody else.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from memorist.base.settings import Settings

DATABASE = "projects.db"
AGENT = "coding-agent"
FOLDER_VARIABLES = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Variables in which hosts name the folder of the project to hooks."""
MAX_NAME_CHARACTERS = 60


def data_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's database and of the log of the hooks."""
    if env.get("XDG_DATA_HOME"):
        return Path(env["XDG_DATA_HOME"]) / "memorist"
    if sys.platform == "win32" and env.get("LOCALAPPDATA"):
        return Path(env["LOCALAPPDATA"]) / "memorist"
    return Path.home() / ".local" / "share" / "memorist"


def config_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's `memorist.yaml`."""
    if env.get("XDG_CONFIG_HOME"):
        return Path(env["XDG_CONFIG_HOME"]) / "memorist"
    return Path.home() / ".config" / "memorist"


def project_folder(folder: Path) -> Path:
    """Return the folder of the Git repository that contains a folder, or the folder itself.

    A worktree belongs to the project of its main repository.
    """
    folder = folder.resolve()
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        if marker.is_dir():
            return parent
        if marker.is_file():
            return _main_repository(marker) or parent
    return folder


def _main_repository(marker: Path) -> Path | None:
    """Return the main repository of a worktree, whose `.git` is a file that names it.

    The repository must name the worktree too: a folder from elsewhere can name any repository.
    """
    text = marker.read_text(encoding="utf-8", errors="replace").strip()
    target = (marker.parent / text.removeprefix("gitdir:").strip()).resolve()
    if target.parent.name != "worktrees" or target.parent.parent.name != ".git":
        return None
    try:
        named = (target / "gitdir").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    back = target / named
    is_worktree = back.name == ".git" and back.parent.resolve() == marker.parent
    return target.parent.parent.parent if is_worktree and not marker.is_symlink() else None


def project_name(folder: Path) -> str:
    """Return the name of a project's memory: its folder, and a hash of the path."""
    path = project_folder(folder)
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name).strip("-.")[:MAX_NAME_CHARACTERS]
    return f"{name or 'project'}-{digest}"


def project_settings(folder: Path, file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings of a project's memory.

    Read from the user's own `memorist.yaml`, the environment and the flags. What they do not set is
    chosen here: the database, the project's tenant, the user, the agent, and masked secrets.
    """
    settings = Settings.load(file, folder=config_folder(), **flags)
    defaults: dict[str, Any] = {
        "database": f"sqlite:///{data_folder() / DATABASE}",
        "tenant": project_name(folder),
        "user": _user_name(),
        "agent": AGENT,
        "secrets": "mask",
    }
    missing = {name: value for name, value in defaults.items() if name not in settings.origins}
    return replace(settings, **missing)


def make_data_folder() -> None:
    """Create the data folder, which only the user can read."""
    data_folder().mkdir(mode=0o700, parents=True, exist_ok=True)


def make_folder(settings: Settings) -> None:
    """Create the data folder if the database is in it."""
    if str(data_folder()) in settings.database:
        make_data_folder()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user id has no name
        return str(os.getuid())
