"""Errors: message, advice, status, and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import string
from collections.abc import Iterator
from typing import Any

import pytest

from memorist.base import errors
from memorist.base.errors import MemoristError

STATUS = {
    "MemoristError": (500, 1),
    "Invalid": (422, 2),
    "TooLarge": (413, 2),
    "NotFound": (404, 3),
    "NoSection": (404, 3),
    "EventsRemoved": (410, 3),
    "Unauthorized": (401, 8),
    "Forbidden": (403, 8),
    "NoIssuer": (503, 8),
    "TooMany": (429, 8),
    "Overloaded": (503, 5),
    "Conflict": (409, 4),
    "AlreadyExists": (409, 4),
    "FileInUse": (409, 4),
    "OutOfOrder": (409, 4),
    "WrongVersion": (409, 4),
    "KeyReused": (422, 4),
    "ModelError": (502, 7),
    "NoModel": (503, 7),
    "ModelUnavailable": (503, 7),
    "BadAnswer": (502, 7),
    "PartlyAnswered": (502, 7),
    "SettingsError": (500, 6),
    "StorageError": (503, 5),
    "Busy": (503, 5),
    "Full": (507, 5),
    "ReadOnly": (503, 5),
    "Unreachable": (503, 5),
    "NoServer": (503, 5),
    "InDoubt": (503, 5),
    "ReadTooLong": (503, 5),
    "Corrupt": (500, 5),
    "CorruptRecord": (500, 5),
    "NotOurs": (500, 5),
    "OldDatabase": (500, 5),
    "NetworkDrive": (500, 5),
    "SchemaTooNew": (500, 5),
    "SchemaTooOld": (500, 5),
}


def tree(kind: type[MemoristError] = MemoristError) -> Iterator[type[MemoristError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


ERRORS = [kind for kind in tree() if kind.__module__ == errors.__name__]


def example(kind: type[MemoristError]) -> MemoristError:
    """Return the error with an example value for each detail of its message."""
    named = {name for _, name, _, _ in string.Formatter().parse(kind.__doc__ or "") if name}
    return kind(**{name: f"<{name}> {{0}} %s é" for name in named})


def test_every_error_is_listed_here() -> None:
    assert {kind.__name__ for kind in ERRORS} == STATUS.keys()


@pytest.mark.parametrize("kind", ERRORS)
def test_the_message_is_the_docstring_with_its_details(kind: type[MemoristError]) -> None:
    error = example(kind)
    template = " ".join((kind.__doc__ or "").split())
    assert " ".join(str(error).split()) == " ".join(template.format(**error.details).split())
    assert str(error).count("\n") == inspect.cleandoc(kind.__doc__ or "").count("\n\n")
    assert str(error)[-1] == "."
    for name, value in error.details.items():
        assert getattr(error, name) == value
        assert f"<{name}>" in str(error)
    assert not re.search(r"\{[a-z_]+(![rs])?\}", str(error))


@pytest.mark.parametrize("kind", ERRORS)
def test_status_and_exit_code(kind: type[MemoristError]) -> None:
    error = example(kind)
    assert (error.status, error.exit_code) == STATUS[kind.__name__]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_can_be_pickled_and_copied(kind: type[MemoristError]) -> None:
    """Pickled, copied and recreated."""
    error = example(kind)
    for twin in (
        pickle.loads(pickle.dumps(error)),
        copy.copy(error),
        copy.deepcopy(error),
        error.copy(),
    ):
        assert type(twin) is kind
        assert twin is not error
        assert (str(twin), twin.details, twin.status) == (str(error), error.details, error.status)
        assert twin.__traceback__ is None


def test_the_tree_in_the_docstring_is_complete() -> None:
    """Every class under its parent, with its status where it differs."""
    drawn: list[tuple[int, str, int | None]] = []
    for line in (errors.__doc__ or "").splitlines():
        result = re.match(
            r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:\s.*?(?P<status>\d{3}))?\s*$", line
        ) or re.match(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)\s(?P<status>)", line)
        if result:
            drawn.append(
                (
                    len(result["branch"]) // 4,
                    result["name"],
                    int(result["status"]) if result["status"] else None,
                )
            )
    parents: list[str] = []
    for depth, name, status in drawn:
        kind = getattr(errors, name)
        assert [base.__name__ for base in kind.__mro__ if issubclass(base, MemoristError)][
            1:
        ] == parents[:depth][::-1]
        parents = [*parents[:depth], name]
        inherited = kind.__mro__[1].status if depth else None
        if status is not None:
            assert status == kind.status
        elif depth and name != "KeyReused":
            assert inherited == kind.status
    assert {name for _, name, _ in drawn} == STATUS.keys()


def test_a_missing_detail_is_an_attribute_error() -> None:
    error = errors.NotFound(what="session", id="x")
    assert (error.what, error.id) == ("session", "x")
    with pytest.raises(AttributeError):
        _ = error.field  # type: ignore[attr-defined]
    assert not hasattr(error, "limit")


def test_an_error_without_its_details_is_rejected() -> None:
    with pytest.raises(KeyError):
        errors.NotFound(what="session")


def test_details_are_never_interpreted_as_a_template() -> None:
    """Stored text in a message stays text."""
    hostile: Any = "{details} {0.__class__} %s"
    assert str(errors.Invalid(field="x", problem=hostile)) == f"x: {hostile}."
