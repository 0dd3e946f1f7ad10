"""Masking of text: secrets with a recognizable format, and personal data.

This module has the patterns of secrets and applies the policy of the settings to both. The patterns
of personal data are in `personal_data.py`. The setting `personal_data` masks e-mail addresses, phone
numbers, cards and IBANs before text is stored, before a model reads it, or both. The setting `secrets` says what
happens to secrets: `off` (no detection), `flag` (counted), `mask` (replaced by a mark such as
`[secret: github-token …a1B2]`) or `reject`. Every pattern is bounded, so the time is proportional
to the length of the text. A secret without a format of its own, such as a password in a sentence,
is not found.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from memorist.base import personal_data
from memorist.base.errors import Invalid
from memorist.base.lazy_pattern import LazyPattern

Mode = Literal["off", "flag", "mask", "reject"]
MaskFunction = Callable[[str], str]


@dataclass(frozen=True)
class Policy:
    """Rules for secrets and personal data in a text."""

    secrets: Mode = "off"
    personal_data: bool = False  # mask it
    function: MaskFunction | None = None  # the application's function, after the built-in patterns


OFF = Policy()
"""No detection. Compare with `is`, so that texts without a policy cost nothing."""
_WORD_START = r"(?<![A-Za-z0-9])"
_WORD_END = r"(?![A-Za-z0-9])"
_SECRET_FORMATS = {
    "private-key": (
        "-----begin",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){16,20000}-----END [A-Z ]{0,60}-----|(?:[\s\\rn]{0,4}[A-Za-z0-9+/=]{40,100}){1,400})",
    ),
    "aws-key": (
        "akia asia agpa aida aroa abia acca",
        _WORD_START + r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)[A-Z2-7]{16}" + _WORD_END,
    ),
    "aws-secret": (
        "aws",
        r"(?i:aws[_ .-]?(?:secret|sk)[\w .-]{0,20})[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    "google-key": (
        "aiza",
        _WORD_START + r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
    ),
    "google-token": (
        "ya29. gocspx- 1//0",
        _WORD_START
        + r"(?:ya29\.[0-9A-Za-z_-]{20,400}|GOCSPX-[0-9A-Za-z_-]{28}|1//0[0-9A-Za-z_-]{30,200})",
    ),
    "github-token": (
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _WORD_START + r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})",
    ),
    "gitlab-token": (
        "glpat- gloas- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- glimt-",
        _WORD_START + r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|soat|agent|imt)-[0-9A-Za-z_-]{20,300}",
    ),
    "slack-token": (
        "xox xapp-",
        _WORD_START
        + r"(?:xox[abeoprs]-[0-9A-Za-z-]{10,250}|xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[a-z0-9]{32,80})",
    ),
    "slack-hook": (
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,200})",
    ),
    "stripe-key": (
        "k_live_ k_test_ whsec_",
        _WORD_START + r"(?:[rs]k_(?:live|test)_[0-9A-Za-z]{16,250}|whsec_[A-Za-z0-9+/=]{32,100})",
    ),
    "anthropic-key": (
        "sk-ant-",
        _WORD_START + r"sk-ant-[A-Za-z0-9_.-]{20,250}",
    ),
    "openai-key": (
        "sk-",
        r"(?<![A-Za-z0-9_.-])sk-(?=[A-Za-z_.-]{0,60}\d)[A-Za-z0-9][A-Za-z0-9_.-]{18,250}",
    ),
    "model-key": (
        "gsk_ xai- r8_ pplx-",
        _WORD_START
        + r"(?:gsk_[A-Za-z0-9]{40,80}|xai-[A-Za-z0-9]{60,100}|r8_[A-Za-z0-9]{37}|pplx-[A-Za-z0-9]{40,60})",
    ),
    "hugging-face-token": (
        "hf_ api_org_",
        _WORD_START + r"(?:hf_|api_org_)[A-Za-z0-9]{30,60}",
    ),
    "jwt": (
        "eyj",
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}",
    ),
    "npm-token": (
        "npm_",
        _WORD_START + r"npm_[A-Za-z0-9]{36}" + _WORD_END,
    ),
    "pypi-token": (
        "pypi-age",
        _WORD_START + r"pypi-AgE[A-Za-z0-9_-]{50,300}",
    ),
    "sendgrid-key": (
        "sg.",
        _WORD_START + r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}",
    ),
    "twilio-key": (
        "sk",
        _WORD_START + r"SK[0-9a-f]{32}" + _WORD_END,
    ),
    "mailgun-key": (
        "key-",
        _WORD_START + r"key-[0-9a-f]{32}" + _WORD_END,
    ),
    "telegram-token": (
        ":aa",
        _WORD_START + r"\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
    ),
    "discord-token": (
        ".",
        r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z\d_-]{23,27}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}(?![A-Za-z\d_-])",
    ),
    "discord-hook": (
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{10,25}/([A-Za-z0-9_-]{60,100})",
    ),
    "azure-key": (
        "key=",
        r"(?i:(?:account|access)key=)([A-Za-z0-9+/]{43,88}={0,2})",
    ),
    "digitalocean-token": (
        "_v1_",
        _WORD_START + r"do[opr]_v1_[a-f0-9]{64}",
    ),
    "shopify-token": (
        "shpat_ shpca_ shppa_ shpss_",
        _WORD_START + r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    ),
    "databricks-token": (
        "dapi",
        _WORD_START + r"dapi[0-9a-f]{32}(?:-\d)?" + _WORD_END,
    ),
    "vault-token": (
        "hvs. hvb. hvr.",
        _WORD_START + r"hv[sbr]\.[A-Za-z0-9_-]{24,200}",
    ),
    "service-key": (
        "pmak- nrak- atatt3x lin_api_ ntn_ sq0 dp.pt. glsa_ figd_ dckr_pat_",
        _WORD_START
        + r"(?:PMAK-[a-f0-9]{24}-[a-f0-9]{34}|NRAK-[A-Z0-9]{27}|ATATT3x[A-Za-z0-9_=-]{100,250}|"
        r"lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,60}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}|dp\.pt\.[A-Za-z0-9]{40,44}|"
        r"glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|figd_[A-Za-z0-9_-]{40,60}|dckr_pat_[A-Za-z0-9_-]{27,40})",
    ),
    "age-key": (
        "age-secret-key-1",
        _WORD_START + r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    ),
    "memorist-key": (
        "mst_",
        _WORD_START + r"mst_[a-z2-7]{2,820}_[a-z2-7]{16}_[a-z2-7]{52}",
    ),
    "password": (
        "://",
        r"://[^\s/:@\"'<>]{0,100}:(?![$<{*%[]|(?:pass(?:word|wd)?|pw|pwd|secret|xxx+)@)([^\s/@\"'<>]{3,200})@",
    ),
    "bearer-token": (
        "bearer basic",
        r"(?i:\b(?:bearer|basic)\s{1,3})(?=[A-Za-z._~+/=-]{0,60}\d)([A-Za-z0-9._~+/-]{20,2000}={0,2})",
    ),
    "credential": (
        "token secret passw key credential",
        r"(?i:(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[\w-]{0,20})"
        r"[\"']?\s{0,3}(?::|=|:=|=>)\s{0,3}[\"']?(?=[^\s\d]{0,60}\d)(?=[^\sA-Za-z]{0,60}[A-Za-z])"
        r"([A-Za-z0-9_+/!@#$%^&*~.-]{10,200}={0,2})(?![A-Za-z0-9_(\[{.])",
    ),
}
"""By the name of a format: substrings in lower case, without one of which no text has it; its pattern."""
_PATTERNS = tuple(
    (name, tuple(substrings.split()), LazyPattern(shape))
    for name, (substrings, shape) in _SECRET_FORMATS.items()
)
_SECRET_NAME = LazyPattern(
    r"(?i)(?:^|[_-])(?:token|secret|passw(?:or)?d|pwd|api_?key|access_?key|private_?key)$"
)
# Text that looks like a name in code, not like a value.
_CODE_NAME = LazyPattern(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[a-z]+(?:[_-][a-z]+)*\d?|[A-Z]+(?:_[A-Z0-9]+)+"
)
_SHOWN_CHARACTERS = 4
_MIN_LENGTH_SHOWN = 16
_MAX_PENDING_BYTES = 64 << 10
_MIN_MASKED_NUMBER = 10**12
_thread = threading.local()
_lock = threading.Lock()
_counts: Counter[str] = Counter()


def mask_secrets(text: str, on_match: Callable[[str], None] = lambda kind: None) -> str:
    """Replace each secret by a mark; call `on_match` with the kind of each."""
    lowercase = text.lower()
    for kind, substrings, pattern in _PATTERNS:
        for word in substrings:
            if word in lowercase:
                break
        else:
            continue

        def mark(match: re.Match[str], kind: str = kind) -> str:
            group = match.re.groups
            secret = match[group]
            match_text = match[0]
            if kind == "credential" and _CODE_NAME.fullmatch(secret):
                return match_text
            on_match(kind)
            start = match.start(group) - match.start()
            return match_text[:start] + _mark(kind, secret) + match_text[start + len(secret) :]

        text = pattern.sub(mark, text)
    return text


def find_secrets(text: str) -> list[str]:
    """Return the kinds of secrets in a text."""
    kinds: list[str] = []
    mask_secrets(text, kinds.append)
    return kinds


def mask_personal(text: str, policy: Policy) -> str:
    """Replace personal data with marks, if the policy says so."""
    if policy.personal_data:
        text = personal_data.mask(text)
    if policy.function is None:
        return text
    masked = policy.function(text)
    if not isinstance(masked, str):
        raise Invalid(field="mask", problem=f"must return text, not {type(masked).__name__}")
    return masked


def mask_personal_json(value: Any, policy: Policy) -> Any:
    """Replace personal data in the strings, names and long numbers of a JSON value."""
    if isinstance(value, str):
        return mask_personal(value, policy)
    if isinstance(value, Mapping):
        names = _distinct(mask_personal(name, policy) for name in value)
        items = [mask_personal_json(item, policy) for item in value.values()]
        return dict(zip(names, items, strict=True))
    if isinstance(value, list | tuple):
        return [mask_personal_json(item, policy) for item in value]
    if isinstance(value, int) and value > _MIN_MASKED_NUMBER:
        masked = mask_personal(str(value), policy)
        return value if masked == str(value) else masked
    return value


def guard(text: str, field: str, policy: Policy) -> str:
    """Return a text unchanged or masked, depending on the policy.

    If secrets are rejected, raise an error that names the field but not the secret.
    """
    if policy.secrets != "off":
        kinds: list[str] = []
        masked = mask_secrets(text, kinds.append)
        text = str(_decide(text, masked, kinds, field, policy.secrets))
    return mask_personal(text, policy)


def guard_name(name: str, field: str, policy: Policy) -> str:
    """Return a name unchanged; raise if it contains a secret that may not be stored.

    Personal data in names stays, because a user's id may be an e-mail address.
    """
    if policy.secrets == "off":
        return name
    mode: Mode = "flag" if policy.secrets == "flag" else "reject"
    return guard(name, field, Policy(mode))


def guard_json(value: Any, field: str, policy: Policy) -> Any:
    """Apply `guard` to a JSON value.

    The value of a key such as `api_key` counts as a secret in any format.
    """
    if policy.secrets != "off":
        kinds: list[str] = []
        masked = _mask_json(value, kinds.append)
        value = _decide(value, masked, kinds, field, policy.secrets)
    return mask_personal_json(value, policy)


def changes(text: str, policy: Policy) -> bool:
    """Return True if something in a text would be masked or rejected."""
    if policy.secrets in ("mask", "reject") and find_secrets(text):
        return True
    return mask_personal(text, policy) != text


def guard_pieces(pieces: Iterator[bytes], field: str, policy: Policy) -> Iterator[bytes]:
    """Apply `guard` to the bytes of a text, cut at line ends; binary data passes unchanged."""
    pending = b""
    is_text = None
    for piece in pieces:
        is_text = b"\0" not in piece if is_text is None else is_text
        if not is_text:
            yield piece
            continue
        pending += piece
        cut = pending.rfind(b"\n") + 1
        key_start = pending.rfind(b"-----BEGIN ", 0, cut)
        if key_start >= 0 and b"-----END " not in pending[key_start:cut]:
            cut = key_start
        # Do not hold back a very long line or an unfinished private key.
        if not cut and len(pending) > _MAX_PENDING_BYTES:
            cut = len(pending)
        if cut:
            yield _guard_bytes(pending[:cut], field, policy)
            pending = pending[cut:]
    if pending:
        yield _guard_bytes(pending, field, policy)


def derived(policy: Policy) -> Policy:
    """Return the policy for a model's output: mask instead of reject, as no user can correct it."""
    return replace(policy, secrets="mask") if policy.secrets == "reject" else policy


def seen() -> int:
    """Return the number of secrets found in this thread so far."""
    return int(getattr(_thread, "seen", 0))


def counts() -> dict[str, int]:
    """Return the number of secrets found in this process, by kind."""
    with _lock:
        return dict(_counts)


def _decide(value: Any, masked: Any, kinds: list[str], field: str, mode: Mode) -> Any:
    if not kinds:
        return value
    _thread.seen = seen() + len(kinds)
    with _lock:
        _counts.update(kinds)
    if mode == "reject":
        kind_names = ", ".join(sorted(set(kinds)))
        raise Invalid(
            field=field,
            problem=f"appears to contain a secret ({kind_names}); remove it, or write where it is stored instead",
        )
    return masked if mode == "mask" else value


def _mask_json(value: Any, on_match: Callable[[str], None]) -> Any:
    if isinstance(value, str):
        return mask_secrets(value, on_match)
    if isinstance(value, Mapping):
        names = _distinct(mask_secrets(name, on_match) for name in value)
        items = [_mask_member(name, item, on_match) for name, item in value.items()]
        return dict(zip(names, items, strict=True))
    if isinstance(value, list | tuple):
        return [_mask_json(item, on_match) for item in value]
    return value


def _distinct(names: Iterable[str]) -> list[str]:
    """Return masked names, numbered where two became the same, so that no value is lost."""
    distinct: dict[str, None] = {}
    last_numbers: Counter[str] = Counter()
    for name in names:
        new_name = name
        while new_name in distinct:
            last_numbers[name] += 1
            new_name = f"{name} {last_numbers[name] + 1}"
        distinct[new_name] = None
    return list(distinct)


def _mask_member(name: str, item: Any, on_match: Callable[[str], None]) -> Any:
    kinds: list[str] = []
    masked = _mask_json(item, kinds.append)
    if (
        not kinds
        and isinstance(item, str)
        and len(item) >= 8
        and _SECRET_NAME.search(name)
        and _looks_like_value(item)
    ):
        kinds = ["credential"]
        masked = _mark("credential", item)
    for kind in kinds:
        on_match(kind)
    return masked


def _looks_like_value(text: str) -> bool:
    return (
        not any(c.isspace() for c in text)
        and text[0] not in "$<{[*%"
        and not _CODE_NAME.fullmatch(text)
    )


def _mark(kind: str, secret: str) -> str:
    end = secret[-_SHOWN_CHARACTERS:]
    if len(secret) < _MIN_LENGTH_SHOWN or not end.isalnum():
        end = ""
    return f"[secret: {kind} …{end}]"


def _guard_bytes(data: bytes, field: str, policy: Policy) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    guarded = guard(text, field, policy)
    return data if guarded == text else guarded.encode("utf-8", "surrogateescape")
