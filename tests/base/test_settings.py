"""Settings from file, environment and flags; errors name the place (D7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from memorist import Memory
from memorist.base.errors import SettingsError, Unreachable
from memorist.base.settings import FIELDS, NAMES, TYPES, Settings
from testkit.failures import raised


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a settings file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    settings = Settings.load(env={})
    assert settings == Settings()
    assert settings.origins == {}
    assert settings.database == "sqlite:///memorist.db"


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    """The later source wins, and each value knows its origin."""
    file = write(tmp_path / "x.yaml", "tenant: file\nuser: file\nagent: file\npostgres_pool: 7\n")
    env = {"MEMORIST_USER": "env", "MEMORIST_AGENT": "env", "PATH": "/bin", "MEMORISTED": "x"}
    settings = Settings.load(file, env, agent="flag", database=None)
    assert (settings.tenant, settings.user, settings.agent) == ("file", "env", "flag")
    assert settings.postgres_pool == 7
    assert settings.origins == {
        "tenant": str(file),
        "postgres_pool": str(file),
        "user": "MEMORIST_USER",
        "agent": "flag",
    }
    assert settings.workers == Settings().workers


def test_an_empty_value_is_a_value(tmp_path: Path) -> None:
    """An empty variable or a null in the file sets text to empty; an omitted flag does not."""
    file = write(tmp_path / "x.yaml", "user: file\ntenant:\n")
    assert Settings.load(file, {"MEMORIST_USER": ""}).user == ""
    assert Settings.load(file, {}).tenant == ""
    assert Settings.load(file, {}, user=None).user == "file"
    assert Settings.load(file, {}, user="").user == ""


def test_the_default_and_the_configured_file(empty_folder: Path) -> None:
    write(empty_folder / "memorist.yaml", "tenant: here\n")
    other = write(empty_folder / "other.yaml", "tenant: there\n")
    assert Settings.load(env={}).tenant == "here"
    assert Settings.load(env={}).origins == {"tenant": "memorist.yaml"}
    assert Settings.load(env={"MEMORIST_CONFIG": str(other)}).tenant == "there"
    assert (
        Settings.load(empty_folder / "memorist.yaml", {"MEMORIST_CONFIG": str(other)}).tenant
        == "here"
    )


def test_a_named_file_must_exist(empty_folder: Path) -> None:
    missing: list[tuple[Path | None, dict[str, str]]] = [
        (Path("nowhere.yaml"), {}),
        (None, {"MEMORIST_CONFIG": "nowhere.yaml"}),
        (empty_folder, {}),
    ]
    for file, env in missing:
        with pytest.raises(SettingsError, match="there is no such file"):
            Settings.load(file, env)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "{}\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, text: str) -> None:
    assert Settings.load(write(tmp_path / "x.yaml", text), {}) == Settings()


@pytest.mark.parametrize(
    "text",
    ["- a\n- b\n", "just words\n", "a: [\n", "\tx: 1\n", "x: !!python/object:os.system {}\n", "5"],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, text: str) -> None:
    file = write(tmp_path / "x.yaml", text)
    assert raised(SettingsError, Settings.load, file, {}).where == str(file)


def test_a_file_in_another_encoding_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"tenant: \xff\xfe\n")
    assert raised(SettingsError, Settings.load, file, {}).where == str(file)


def test_unknown_names_are_rejected_everywhere(tmp_path: Path) -> None:
    """A typo never means the default."""
    file = write(tmp_path / "x.yaml", "databse: x\n5: y\n")
    with pytest.raises(SettingsError, match=r"there is no setting .*5.*databse") as error:
        Settings.load(file, {})
    assert error.value.where == str(file)
    with pytest.raises(SettingsError, match="MEMORIST_DATABSE") as error:
        Settings.load(env={"MEMORIST_DATABSE": "x", "MEMORIST_TENANT": "y"})
    assert error.value.where == "environment"
    with pytest.raises(SettingsError, match="there is no setting .*databse"):
        Settings.load(env={}, databse="x")
    with pytest.raises(SettingsError, match="origins"):
        Settings.load(write(tmp_path / "y.yaml", "origins: {}\n"), {})


WRONG: list[tuple[str, Any]] = [
    ("postgres_pool", "many"),
    ("postgres_pool", 0),
    ("postgres_pool", -5),
    ("postgres_pool", 2.5),
    ("postgres_pool", "2.5"),
    ("postgres_pool", True),
    ("postgres_pool", None),
    ("postgres_pool", [5]),
    ("retention_days", -1),
    ("retention_days", float("inf")),
    ("rate_per_second", "soon"),
    ("rate_per_second", float("nan")),
    ("rate_per_second", -0.1),
    ("rate_per_second", float("inf")),
    ("audit", "some"),
    ("audit", True),
    ("audit", ["all"]),
    ("summary_enabled", "maybe"),
    ("summary_enabled", None),
    ("summary_enabled", 2),
    ("tenant", ["a", "b"]),
    ("database", {"host": "x"}),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_invalid_value_names_setting_and_place(tmp_path: Path, name: str, value: Any) -> None:
    file = write(tmp_path / "x.yaml", yaml.safe_dump({name: value}))
    with pytest.raises(SettingsError) as error:
        Settings.load(file, {})
    assert error.value.where == f"{file}, {name}"
    if value is not None:
        assert (
            raised(SettingsError, Settings.load, env={}, **{name: value}).where == f"flag, {name}"
        )
    if isinstance(value, str | int | float) and name != "tenant":
        assert (
            raised(SettingsError, Settings.load, env={f"MEMORIST_{name.upper()}": str(value)}).where
            == f"MEMORIST_{name.upper()}, {name}"
        )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("postgres_pool", "250", 250),
        ("postgres_pool", 250.0, 250),
        ("rate_per_second", "2.5", 2.5),
        ("rate_per_second", 2, 2.0),
        ("summary_enabled", "Yes", True),
        ("summary_enabled", "off", False),
        ("summary_enabled", True, True),
        ("summary_enabled", 0, False),
        ("audit", "all", "all"),
        ("consolidate", "propose", "propose"),
        ("consolidate", False, "off"),
        ("tenant", 5, "5"),
        ("retention_days", 0, 0),
    ],
)
def test_a_value_has_the_type_of_its_setting(
    tmp_path: Path, name: str, text: Any, value: Any
) -> None:
    for settings in (
        Settings.load(write(tmp_path / "x.yaml", yaml.safe_dump({name: text})), {}),
        Settings.load(env={}, **{name: text}),
    ):
        result = getattr(settings, name)
        assert (result, type(result)) == (value, type(value))


def test_every_setting_can_be_set_everywhere(tmp_path: Path) -> None:
    """And its default round-trips."""
    for field in FIELDS:
        default: Any = field.default
        env = {f"MEMORIST_{field.name.upper()}": str(default)}
        flag: dict[str, Any] = {field.name: default}
        assert Settings.load(env=env) == Settings()
        assert (
            Settings.load(write(tmp_path / "x.yaml", yaml.safe_dump({field.name: default})), {})
            == Settings()
        )
        assert Settings.load(env={}, **flag).origins == {field.name: "flag"}
    assert set(NAMES) == TYPES.keys() - {"origins", "mcp_servers", "mask_function"}


def test_the_example_file_has_the_defaults(tmp_path: Path) -> None:
    """Every setting, explained; equal to the file in the repository."""
    example = Settings.example()
    settings = Settings.load(write(tmp_path / "x.yaml", example), {})
    assert settings == Settings()
    assert settings.origins.keys() == set(NAMES)
    shipped = Path(__file__).parent.parent.parent / "memorist.example.yaml"
    assert shipped.read_text(encoding="utf-8") == example


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:hunter2@host:5432/db", "postgresql://ada:***@host:5432/db"),
        ("postgresql://:hunter2@host/db", "postgresql://:***@host/db"),
        (
            "postgresql://ada:hunter2%40x@host/db?sslmode=require",
            "postgresql://ada:***@host/db?sslmode=require",
        ),
        ("postgresql://ada:a@hunter2@host/db", "postgresql://ada:***@host/db"),
        ("postgresql:///db?user=ada&password=hunter2", "postgresql:///db?user=ada&password=***"),
        (
            "postgresql://host/db?password=hunter2&user=ada",
            "postgresql://host/db?password=***&user=ada",
        ),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("sqlite:///folder/a:b@c.db", "sqlite:///folder/a:b@c.db"),
    ],
)
def test_a_password_is_never_shown(address: str, shown: str) -> None:
    settings = Settings(database=address, owner_database=address)
    assert settings.shown("database") == settings.shown("owner_database") == shown
    assert SECRET not in repr(settings) + str(settings)
    assert settings.database == address


def test_a_password_is_in_no_error_and_no_name() -> None:
    """Neither for an unreachable server nor for an invalid URL."""
    for address in (f"postgresql://ada:{SECRET}@127.0.0.1:1/db", f"mysql://ada:{SECRET}@host/db"):
        with pytest.raises((Unreachable, SettingsError)) as error:
            Memory.open(address)
        assert SECRET not in str(error.value) + repr(error.value)


def test_common_variables_of_the_summary_model(tmp_path: Path) -> None:
    """OPENAI_SUMMARY_MODEL and OPENAI_SUMMARY_URL; our own variable wins, and the origin names
    it.
    """
    env = {"OPENAI_SUMMARY_MODEL": "small", "OPENAI_SUMMARY_URL": "http://there/v1"}
    file = write(tmp_path / "x.yaml", "summary_model: from-file\n")
    settings = Settings.load(file, env)
    assert (settings.summary_model, settings.summary_base_url) == ("small", "http://there/v1")
    assert settings.origins == {
        "summary_model": "OPENAI_SUMMARY_MODEL",
        "summary_base_url": "OPENAI_SUMMARY_URL",
    }
    settings = Settings.load(
        file, {**env, "MEMORIST_SUMMARY_MODEL": "ours", "OPENAI_SUMMARY_URL": ""}
    )
    assert (settings.summary_model, settings.summary_base_url) == ("ours", "")
    assert settings.origins == {"summary_model": "MEMORIST_SUMMARY_MODEL"}
    assert Settings.load(env=env, summary_model="flag").summary_model == "flag"
    assert (Settings().summary_enabled, Settings().summary_threshold) == (False, 40)
    assert Settings().summary_keep_last == 12


KEY = "sk-proj-0123456789abcdef"


def test_a_key_is_never_shown(tmp_path: Path) -> None:
    """The last four characters of a long one, nothing of a short one."""
    for name in ("api_key", "summary_api_key"):
        settings = Settings.load(env={f"MEMORIST_{name.upper()}": KEY})
        assert settings.shown(name) == "***cdef"
        assert KEY[:-4] not in repr(settings) + str(settings)
        assert Settings.load(env={f"MEMORIST_{name.upper()}": "hunter2"}).shown(name) == "***"
        assert Settings().shown(name) == ""
        for text in (
            f"{name}: [{KEY}]\n",
            f"{name}: {{{KEY}: 1}}\n",
            f'{name}: "{KEY}\n',
            f"{name}: {KEY}: x\n\tx",
        ):
            with pytest.raises(SettingsError) as error:
                Settings.load(write(tmp_path / "x.yaml", text), {})
            assert "0123456789" not in str(error.value) + repr(error.value)


def test_invalid_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", "tenant: a\nuser: [\n")
    with pytest.raises(SettingsError) as error:
        Settings.load(file, {})
    assert str(error.value).startswith(f"{file}: is not valid YAML in line 3: ")


def test_settings_are_immutable(tmp_path: Path) -> None:
    settings = Settings()
    with pytest.raises(AttributeError):
        settings.tenant = "x"  # type: ignore[misc]
    assert Settings(tenant="x") != settings
    assert Settings(origins={"tenant": "flag"}) == settings


def test_open_without_a_url_uses_the_settings(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A given URL is used alone."""
    write(
        empty_folder / "memorist.yaml",
        f"database: sqlite:///{empty_folder}/from-file.db\ntenant: yaml\n",
    )
    with Memory.open() as memory:
        assert memory.settings.tenant == "yaml"
        assert memory.database.name == f"sqlite:///{empty_folder}/from-file.db"
        assert memory.scope().owner.tenant == "yaml"
    with Memory.open("memory:") as memory:
        assert memory.settings.tenant == "default"
    monkeypatch.setenv("MEMORIST_TENANT", "env")
    with Memory.open() as memory:
        assert memory.scope().owner.tenant == "env"


def test_repr_quotes_text_only() -> None:
    shown = repr(Settings(tenant="acme", port=200))
    assert "tenant='acme'" in shown
    assert "port=200," in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("openai: {model: x, api_key: sk-1}", "there is no setting openai"),
        ("context_token: 1", r"context_token \(did you mean context_tokens\?\)"),
    ],
)
def test_a_name_that_is_not_understood_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as raised:
        Settings.load(write(tmp_path / "x.yaml", text), {})
    assert "sk-" not in str(raised.value)


def test_there_are_at_most_46_settings() -> None:
    """A new one needs a reason: what a program or its operator cannot do without it."""
    assert len(NAMES) <= 46
