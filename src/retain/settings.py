"""Every setting, in one class: a YAML file, then the environment, then flags; the later word wins.

A plain dataclass and a short loader instead of a settings library, because this is imported by `retain --help` too: the
library alone took a third of a second to import, and does not say where a value came from.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from retain.errors import SettingsError

FILE = "retain.yaml"
_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*:)[^/?\s]+(@)|([?&](?:ssl)?password=)[^&\s]+")


def _setting(default: Any, doc: str, least: float = 0) -> Any:
    return field(default=default, metadata={"doc": doc, "least": least})


@dataclass(frozen=True)
class Settings:
    """How this retain is set up; `origins` says where each value that is not a default came from."""

    database: str = _setting(
        "sqlite:///retain.db", "Where memory is kept: `sqlite:///FILE`, `postgresql://…`, or `memory:` for a test."
    )
    owner_database: str = _setting(
        "", "PostgreSQL: the address of the role that owns the tables, used for migrations only. Empty: `database`."
    )
    tenant: str = _setting("default", "Whose data, where a call does not say.")
    user: str = _setting("", "The command line's user, where no `--user` is given. Empty: every user of the tenant.")
    agent: str = _setting("", "The command line's agent, where no `--agent` is given. Empty: every agent.")
    retention_days: int = _setting(0, "`retain purge` removes messages older than this many days. 0: keep them.")
    max_message_bytes: int = _setting(1 << 20, "The largest content of one message, as JSON.", 1024)
    max_state_bytes: int = _setting(1 << 20, "The largest value of one state key, as JSON.", 1024)
    max_attributes_bytes: int = _setting(64 << 10, "The largest attributes, parameters or prompt of one record.", 1024)
    max_batch: int = _setting(1000, "The most messages in one `extend`.", 1)
    max_page: int = _setting(1000, "The most records in one page.", 1)
    sqlite_durability: Literal["full", "normal"] = _setting(
        "full", "`full`: an acknowledged write survives a power cut. `normal`: it survives a crash of the process only."
    )
    sqlite_busy_seconds: float = _setting(30.0, "How long to wait for another process that is writing.")
    sqlite_min_free_mib: int = _setting(64, "Writes are refused while less than this is free on the disk.")
    sqlite_ballast_mib: int = _setting(16, "A reserve file beside the database for `retain purge --emergency`. 0: none.")
    sqlite_log_mib: int = _setting(256, "A reader that keeps the write-ahead log above this size is stopped.", 1)
    sqlite_network_drive: bool = _setting(False, "Allow a file on a network file system, where files get damaged.")
    postgres_schema: str = _setting("retain", "The schema that holds the tables.")
    postgres_role: str = _setting(
        "retain_app", "The role that every transaction takes on, which owns nothing. Empty: the connecting role."
    )
    postgres_pool: int = _setting(16, "The most connections of one process.", 1)
    postgres_wait_seconds: float = _setting(10.0, "How long to wait for a connection, or for a server that restarts.")
    postgres_statement_seconds: float = _setting(15.0, "The longest one statement may run.")
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in NAMES:
            object.__setattr__(self, name, _convert(name, getattr(self, name), "Settings"))

    @classmethod
    def load(cls, file: Path | None = None, env: Mapping[str, str] | None = None, **flags: Any) -> Settings:
        """Read the file (`retain.yaml` here, or where RETAIN_CONFIG says), then the environment, then the flags."""
        env = os.environ if env is None else env
        path = file or Path(env.get("RETAIN_CONFIG") or FILE)
        if (file or "RETAIN_CONFIG" in env) and not path.is_file():
            raise SettingsError(where=str(path), problem="there is no such file")
        settings = cls()
        if path.is_file():
            settings = settings._with(_read_yaml(path), str(path))
        known = {f"RETAIN_{name.upper()}": name for name in NAMES}
        unknown = sorted({variable for variable in env if variable.startswith("RETAIN_")} - known.keys() - {"RETAIN_CONFIG"})
        if unknown:
            raise SettingsError(where="environment", problem=f"there is no setting for {_with_hints(unknown, known)}")
        for variable, name in known.items():
            if variable in env:
                settings = settings._with({name: env[variable]}, variable)
        return settings._with({name: value for name, value in flags.items() if value is not None}, "flag")

    def shown(self, name: str) -> str:
        """A setting as it may be shown: without the password in an address."""
        value = getattr(self, name)
        return _PASSWORD.sub(r"\1\3***\2", value) if isinstance(value, str) else str(value)

    def __repr__(self) -> str:
        """As it may stand in a log."""
        return f"Settings({', '.join(f'{name}={self.shown(name)!r}' for name in NAMES)})"

    @staticmethod
    def example() -> str:
        """A settings file with every setting at its default, and what it means."""
        parts = ["# Settings of retain: copy this to retain.yaml and change what you need.\n"]
        parts += ["# Each can also be set in the environment, as RETAIN_DATABASE for `database`.\n"]
        for setting in FIELDS:
            value = setting.default
            written = value if isinstance(value, str) and value else json.dumps(value)
            parts += [
                "\n",
                *[f"# {line}\n" for line in textwrap.wrap(setting.metadata["doc"], 118)],
                f"{setting.name}: {written}\n",
            ]
        return "".join(parts)

    def _with(self, values: Mapping[str, Any], where: str) -> Settings:
        unknown = sorted(values.keys() - set(NAMES))
        if unknown:
            raise SettingsError(where=where, problem=f"there is no setting {_with_hints(unknown, NAMES)}")
        read = {name: _convert(name, value, where) for name, value in values.items()}
        return replace(self, **read, origins={**self.origins, **dict.fromkeys(read, where)})


FIELDS = tuple(f for f in fields(Settings) if f.name != "origins")
NAMES = tuple(f.name for f in FIELDS)
TYPES = get_type_hints(Settings)
_LEAST = {f.name: f.metadata["least"] for f in FIELDS}


def _with_hints(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Names that do not exist, each with the one that was probably meant."""
    known = list(known)
    meant = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
    return ", ".join(f"{name} (did you mean {close[0]}?)" if close else name for name, close in meant.items())


def _read_yaml(path: Path) -> Mapping[str, Any]:
    import yaml  # a file is rare, and this costs more than the rest of the module

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(where=str(path), problem=f"is not YAML: {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingsError(where=str(path), problem="must be lines of `setting: value`")
    return {str(name): value for name, value in found.items()}


def _convert(name: str, value: Any, where: str) -> Any:
    """A value in the setting's type, from YAML or from text."""
    wanted = TYPES[name]
    where = f"{where}, {name}"
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise SettingsError(where=where, problem=f"must be one of {', '.join(get_args(wanted))}, not {value!r}")
        return value
    if wanted is bool:
        words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
        if str(value).lower() not in words:
            raise SettingsError(where=where, problem=f"must be true or false, not {value!r}")
        return words[str(value).lower()]
    if wanted is str:
        if isinstance(value, list | dict | bool):
            raise SettingsError(where=where, problem=f"must be text, not {value!r}; put it in quotes")
        return "" if value is None else str(value)
    try:
        number = wanted(value)
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(where=where, problem=f"must be a number, not {value!r}") from None
    if isinstance(value, float) and number != value:
        raise SettingsError(where=where, problem=f"must be a whole number, not {value!r}")
    if isinstance(value, bool) or not _LEAST[name] <= number < float("inf"):
        raise SettingsError(where=where, problem=f"must be a number from {_LEAST[name]} up, not {value!r}")
    return number
