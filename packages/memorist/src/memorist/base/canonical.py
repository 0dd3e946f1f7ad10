"""Validation of text, ids and JSON, so that values mean the same on every engine.

- **Text** is stored unchanged, except for two characters that databases treat differently: NUL
  becomes `␀` (U+2400) and a lone surrogate becomes `�` (U+FFFD). The six characters
  backslash-u-0000 are ordinary text and stay.
- **Ids and keys** (sessions, users, agents, state keys …) are never changed. An id that is blank,
  over 512 bytes, or contains control characters or surrogates is rejected; so is a new id that is
  `.` or `..`.
- **JSON** that arrives as text (`JsonText`) is stored byte for byte if the text rule changes
  nothing in it. Nesting is at most 64 deep, numbers are finite as a double, and NaN and Infinity
  are rejected.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from memorist.base import masking
from memorist.base.errors import CorruptRecord, Invalid, TooLarge
from memorist.base.lazy_pattern import LazyPattern
from memorist.base.masking import OFF, Policy

MAX_KEY_BYTES = 512
MAX_DEPTH = 64
MAX_AMOUNT = 1e15

T = TypeVar("T")
Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of these, or JsonText."""

VISIBLE = (
    "[^\\s\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]"
)
"""Pattern of one visible character: no whitespace, control or zero-width character.

Private-use and unassigned characters count as visible: a font may show them. The pattern means
the same in Python, Rust and JavaScript, because it is part of the OpenAPI document.
"""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_UNSAFE_ESCAPE = LazyPattern(rf"[\ud800-\udfff]|\\u0000|{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")
"""A lone surrogate or a NUL, also as an escape. PostgreSQL cannot decode them."""


class JsonText(str):
    """Text that already is JSON, to be stored byte for byte."""


def is_visible(text: str) -> bool:
    """Return whether a text contains a visible character."""
    return re.search(VISIBLE, text) is not None


def key(value: str, field: str, policy: Policy = OFF) -> str:
    """Return an id or key unchanged, or raise; a secret in a new key is rejected, not masked."""
    if not isinstance(value, str):
        raise Invalid(field=field, problem=f"must be text, not {type(value).__name__}")
    if not value or value.isspace():
        raise Invalid(field=field, problem="must not be blank")
    if len(value) > MAX_KEY_BYTES:  # checked first, so that no large text is searched
        raise TooLarge(
            field=field,
            size=len(value.encode("utf-8", "surrogatepass")),
            unit="bytes",
            limit=MAX_KEY_BYTES,
        )
    if match := _CONTROL.search(value):
        raise Invalid(field=field, problem=f"has a control character (U+{ord(match.group()):04X})")
    if len(value) * 4 > MAX_KEY_BYTES and (size := len(value.encode())) > MAX_KEY_BYTES:
        raise TooLarge(field=field, size=size, unit="bytes", limit=MAX_KEY_BYTES)
    return value if policy is OFF else masking.guard_name(value, field, policy)


def name(value: str, field: str, policy: Policy = OFF) -> str:
    """Return the key of something new, or raise.

    Keys become parts of URLs, from which browsers and proxies remove `.` and `..`.
    """
    if value in (".", ".."):
        raise Invalid(field=field, problem=f"must not be {value!r}: it cannot be part of a URL")
    return key(value, field, policy)


def text(value: str, field: str, limit: int, policy: Policy = OFF) -> str:
    """Return text of at most `limit` bytes of UTF-8, with NUL and lone surrogates replaced.

    Secrets and personal data in it are handled according to the policy.
    """
    if not isinstance(value, str):
        raise Invalid(field=field, problem=f"must be text, not {type(value).__name__}")
    cleaned = within(_clean(value), field, limit)
    if policy is OFF:
        return cleaned
    return within(masking.guard(cleaned, field, policy), field, limit)


def within(value: str, field: str, limit: int) -> str:
    """Return the text, or raise `TooLarge` if it is over `limit` bytes of UTF-8."""
    if len(value) * 4 > limit and (size := len(value.encode())) > limit:
        raise TooLarge(field=field, size=size, unit="bytes", limit=limit)
    return value


def check_integer(value: int, field: str, minimum: int = 0, maximum: int = 2**53) -> int:
    """Return a whole number, or raise `Invalid` if it is out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(field=field, problem=f"must be a whole number, not {type(value).__name__}")
    if not minimum <= value <= maximum:
        raise Invalid(field=field, problem=f"must be from {minimum} to {maximum}, not {value}")
    return value


def one_of(value: Any, field: str, choices: Collection[str]) -> None:
    """Raise `Invalid` unless a value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        problem = f"must be one of {', '.join(choices)}, not {repr(value)[:60]}"
        raise Invalid(field=field, problem=problem)


def amount(value: float, field: str) -> float:
    """Return a number from 0 to 1e15 as a float; the limit keeps sums of many values in range."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MAX_AMOUNT
    ):
        raise Invalid(field=field, problem=f"must be a number from 0 to {MAX_AMOUNT:.0e}")
    return float(value) + 0.0  # SQLite does not keep the sign of -0.0


def check_list(values: Sequence[T], field: str, maximum: int) -> Sequence[T]:
    """Return a list, or raise if it is empty or too long."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
        raise Invalid(field=field, problem=f"must be a non-empty list of {field}")
    if len(values) > maximum:
        raise TooLarge(field=field, size=len(values), unit=field, limit=maximum)
    return values


def words(search: str | None, limit: int) -> list[str]:
    """Return the case-folded words of a search; an empty list without a search."""
    return [] if search is None else text(search, "search", limit).casefold().split()


def split_list(value: str) -> list[str]:
    """Split a comma-separated list; names that contain commas come as a JSON list."""
    if value.lstrip().startswith('["'):
        names = parse(value, "list")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return [part.strip() for part in value.split(",") if part.strip()]


def dump(value: Json, field: str, limit: int, policy: Policy = OFF) -> str:
    """Return the JSON text of a value, at most `limit` bytes; a valid `JsonText` stays as it is."""
    if isinstance(value, JsonText):
        parsed = parse(value, field)
        cleaned = _guarded(_check(parsed, field, 0), field, policy)
        # Parsing drops the first value of a repeated key, which may hold a surrogate or a secret.
        is_unchanged = cleaned == parsed and not _UNSAFE_ESCAPE.search(value)
        is_unchanged = is_unchanged and (policy is OFF or not masking.changes(value, policy))
        encoded = str(value) if is_unchanged else _encode(cleaned)
    elif policy is OFF and _is_clean(value, 0):
        encoded = _encode_clean(value)
    else:
        encoded = _encode(_guarded(_check(value, field, 0), field, policy))
    return within(encoded, field, limit)


def _guarded(value: Any, field: str, policy: Policy) -> Any:
    return value if policy is OFF else masking.guard_json(value, field, policy)


def parse(json_text: str, field: str) -> Any:
    """Parse JSON text; raise an error with the position of the first problem."""
    try:
        return _parse(json_text)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise Invalid(
            field=field,
            problem=f"is not valid JSON ({where}); a JSON string needs double quotes: '\"like this\"'",
        ) from None
    except (ValueError, RecursionError) as error:
        raise Invalid(field=field, problem=f"is not JSON that can be stored ({error})") from None


def _not_a_number(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


_parse = json.JSONDecoder(parse_constant=_not_a_number).decode

quote = json.encoder.encode_basestring
"""Encode text as a JSON string."""
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _encode_clean(value: Any) -> str:
    """Encode a clean value, which all JSON libraries encode the same way.

    orjson takes 0.5 µs for an item of 250 bytes, and `_encode` 4 µs. It is used only if the program
    has already imported it, as programs with LangGraph have. Importing it takes 28 ms, too long for
    a command, and a signal during the import can crash the interpreter.
    """
    dumps = getattr(sys.modules.get("orjson"), "dumps", None)
    return _encode(value) if dumps is None else dumps(value).decode()


def _clean(value: str) -> str:
    if value.isascii():
        return value.replace("\x00", "␀") if "\x00" in value else value
    return _SURROGATE.sub("�", value.replace("\x00", "␀"))


def _is_clean(value: Any, depth: int) -> bool:
    """Return whether `_check` would return a value unchanged, and there is one way to write it.

    Most values are clean. False for a float, which can be written as 1e16 or as 1e+16.
    """
    kind = type(value)
    if kind is str:
        is_plain = value.isascii() and "\x00" not in value
        return is_plain or _clean(value) is value
    if kind is dict and depth < MAX_DEPTH:
        for name, item in value.items():
            if (
                type(name) is not str
                or not _is_clean(name, depth)
                or not _is_clean(item, depth + 1)
            ):
                return False
        return True
    if (kind is list or kind is tuple) and depth < MAX_DEPTH:
        return all(_is_clean(item, depth + 1) for item in value)
    if kind is int:
        return -(2**63) < value < 2**63  # type: ignore[no-any-return]
    return value is None or kind is bool


def _check(value: Any, field: str, depth: int) -> Any:
    """Return the value with clean strings; raise `Invalid` if JSON cannot represent it."""
    if isinstance(value, str):
        return _clean(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        try:
            finite = -float("inf") < float(value) < float("inf")
        except OverflowError:
            finite = False
        if not finite:
            raise Invalid(field=field, problem="has a number outside the range of a double")
        return value
    if depth >= MAX_DEPTH:
        raise Invalid(field=field, problem=f"is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise Invalid(field=field, problem=f"has a key that is not text: {name!r}")
        return {_clean(name): _check(item, field, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_check(item, field, depth + 1) for item in value]
    problem = f"contains a value of type {type(value).__name__}, which JSON cannot represent"
    raise Invalid(field=field, problem=problem)


def stored_json(raw: str, record: str) -> Any:
    """Parse JSON that was valid when it was stored; `record` names its record in the error."""
    try:
        return json.loads(raw)
    except ValueError as error:
        raise CorruptRecord(record=record) from error
