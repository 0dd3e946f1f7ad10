"""Secrets are detected by shape in all input and handled by the setting; prose and code stay (S13)."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base import masking
from memorist.base.errors import Invalid
from memorist.base.masking import Policy
from memorist.models import Models
from memorist.testing import ScriptedModel
from testkit.databases import one_engine
from testkit.memories import scope_of
from tests.base.secrets import kept, write_everywhere

ROOT = Path(__file__).parents[2]
LETTERS, UPPER, HEX = (
    string.ascii_letters + string.digits,
    string.ascii_uppercase + "234567",
    "0123456789abcdef",
)
BASE32 = string.ascii_lowercase + "234567"
URLSAFE = LETTERS + "_-"


def made(rng: random.Random, letters: str, size: int) -> str:
    """Return random letters that do not end with punctuation, as in real keys."""
    return "".join(rng.choices(letters, k=size - 1)) + rng.choice(
        LETTERS if letters == URLSAFE else letters
    )


# Built from parts while the test runs, so that no scanner of sources takes this file for a leak.
SHAPES: dict[str, Callable[[random.Random], str]] = {
    "aws": lambda r: r.choice(["AK", "AS"]) + "IA" + made(r, UPPER, 16),
    "aws secret": lambda r: "aws_secret_access_key = " + made(r, LETTERS + "/+", 40),
    "google": lambda r: "AI" + "za" + made(r, URLSAFE, 35),
    "google oauth": lambda r: "ya" + "29." + made(r, URLSAFE, 60),
    "github": lambda r: "gh" + r.choice("pousr") + "_" + made(r, LETTERS, 36),
    "github fine": lambda r: "github" + "_pat_" + made(r, LETTERS, 22) + "_" + made(r, LETTERS, 59),
    "gitlab": lambda r: "gl" + "pat-" + made(r, URLSAFE, 20),
    "slack": lambda r: "xo" + "xb-" + made(r, string.digits, 12) + "-" + made(r, LETTERS, 24),
    "slack hook": lambda r: "https://hooks.slack" + ".com/services/T" + made(r, UPPER, 8) + "/B" + made(r, UPPER, 8)
    + "/" + made(r, LETTERS, 24),
    "stripe": lambda r: r.choice("sr") + "k_" + "live_" + made(r, LETTERS, 24),
    "openai": lambda r: "sk" + "-" + made(r, LETTERS, 47) + "7",
    "openai project": lambda r: "sk" + "-proj-" + made(r, URLSAFE, 155) + "7",
    "anthropic": lambda r: "sk" + "-ant-api03-" + made(r, URLSAFE, 93) + "AA",
    "with dots": lambda r: "sk" + "-ant." + made(r, LETTERS, 20) + ".9" + made(r, LETTERS, 30),
    "jwt": lambda r: ".".join(["ey" + "J" + made(r, URLSAFE, 33), "ey" + "J" + made(r, URLSAFE, 80), made(r, URLSAFE, 43)]),
    "pem": lambda r: "-----BEGIN RSA PRIVATE" + " KEY-----\n" + "\n".join(made(r, LETTERS + "+/", 64) for _ in range(8))
    + "\n-----END RSA PRIVATE" + " KEY-----",
    "url": lambda r: "postgres" + "ql://ada:" + made(r, LETTERS, 14) + "@db.example.org/main",
    "export": lambda r: "export " + r.choice(["DEPLOY", "MY_APP", "CI"]) + "_TOKEN=" + made(r, LETTERS, 30) + "4",
    "assigned": lambda r: r.choice(["api_key", "client_secret", "password"]) + ': "' + made(r, LETTERS, 22) + '5x"',
    "bearer": lambda r: "Authorization: Bearer " + made(r, LETTERS, 39) + "1",
    "npm": lambda r: "np" + "m_" + made(r, LETTERS, 36),
    "pypi": lambda r: "py" + "pi-AgE" + made(r, URLSAFE, 120),
    "hugging face": lambda r: "h" + "f_" + made(r, string.ascii_letters, 34),
    "sendgrid": lambda r: "S" + "G." + made(r, URLSAFE, 22) + "." + made(r, URLSAFE, 43),
    "telegram": lambda r: made(r, "123456789", 9) + ":A" + "A" + made(r, URLSAFE, 33),
    "digitalocean": lambda r: "do" + "p_v1_" + made(r, HEX, 64),
    "shopify": lambda r: "shp" + "at_" + made(r, HEX, 32),
    "databricks": lambda r: "da" + "pi" + made(r, HEX, 32),
    "vault": lambda r: "hv" + "s." + made(r, URLSAFE, 90),
    "twilio": lambda r: "S" + "K" + made(r, HEX, 32),
    "mailgun": lambda r: "ke" + "y-" + made(r, HEX, 32),
    "azure": lambda r: "Account" + "Key=" + made(r, LETTERS + "+/", 86) + "==",
    "ours": lambda r: "ms" + "t_" + made(r, BASE32, 8) + "_" + made(r, BASE32, 16) + "_" + made(r, BASE32, 52),
}  # fmt: skip
AROUND = (
    "{}",
    "the key is {}.",
    "use `{}` here",
    '{{"value": "{}"}}',
    "KEY={}\nNEXT=1",
    "({})",
    "curl -H 'x: {}' https://x.org",
)
SAID = "Ada told the agent twelve times, each time with its number, that the token with which she pushes to her project is"
GITHUB = SHAPES["github"](random.Random(7))


def secret_of(text: str) -> str:
    """Return the secret part: the last long run of random letters."""
    return str(max(re.findall(r"[A-Za-z0-9]{8,}", text), key=len))


def test_most_of_a_thousand_synthetic_keys_are_masked() -> None:
    """S13, 4.7: at least 95 % of 1,000 synthetic keys in varied contexts, and some of every kind."""
    rng = random.Random(20261115)
    missed: list[str] = []
    for n in range(1000):
        name = list(SHAPES)[n % len(SHAPES)]
        text = SHAPES[name](rng)
        if secret_of(text) in masking.mask_secrets(rng.choice(AROUND).format(text)):
            missed.append(name)
    assert len(missed) <= 50, missed
    assert not [name for name in SHAPES if missed.count(name) > 10]


def test_prose_and_code_are_unchanged() -> None:
    """S13, 4.7: at most 0.5 % false positives on 10,000 lines of this project's documents and
    sources.
    """
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").rglob("*.py")]
    lines = [
        line
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    assert len(lines) > 10_000
    alarms = [line for line in lines if masking.find_secrets(line)]
    assert len(alarms) <= 0.005 * len(lines), alarms


@pytest.mark.parametrize(
    "text",
    [
        "api_key = settings.api_key",
        "password: str = field(default='')",
        "token = tokens.estimate(text)",
        "secret=${SECRET_TOKEN_2}",
        "PASSWORD=$(cat /run/secrets/db1)",
        "postgresql://user:password@host/db",
        "postgresql://user:${PASSWORD}@host/db",
        "the risk-averse desk-top 2 sk-learn notes",
        "https://example.org:8080/@ada",
        "[MemoryRef: npm-install-7f3a09c1 - what npm said]",
        "0199b2c4-7d31-7b11-9a50-3c1f0a9e2d4b",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "max_tokens: 2000000000, tokens_in=1200",
    ],
)
def test_similar_text_is_unchanged(text: str) -> None:
    assert masking.mask_secrets(text) == text


def test_a_mask_names_the_kind_and_is_left_alone() -> None:
    masked = masking.mask_secrets(f"push with {GITHUB} today")
    assert masked == f"push with [secret: github-token …{GITHUB[-4:]}] today"
    assert masking.mask_secrets(masked) == masked
    for name, make in SHAPES.items():
        once = masking.mask_secrets(make(random.Random(3)))
        assert masking.mask_secrets(once) == once, name
        assert "MemoryRef" not in once


def test_only_the_password_of_a_url_is_masked() -> None:
    assert (
        masking.mask_secrets("postgresql://ada:hunter2secret9@host:5432/db")
        == "postgresql://ada:[secret: password …]@host:5432/db"
    )


def test_masking_takes_linear_time() -> None:
    """Twice the text takes about twice the steps: no pattern looks back further than its bound."""
    for part in (
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "-eyJ",
        "://a:",
        "token=",
        "aws sk ",
        "bearer a.",
        "MA.",
        "A1" * 30 + ".",
    ):
        assert (
            masking.find_secrets(part * (200_000 // len(part))) is not None
        )  # a pattern that is not linear would take hours


def test_values_of_secret_names_are_masked() -> None:
    arguments = {
        "db_password": "correct-Horse7battery",
        "note": "correct-Horse7battery",
        "nested": [{"text": GITHUB}],
    }
    masked = masking.guard_json(arguments, "value", Policy("mask"))
    assert masked == {
        "db_password": "[secret: credential …tery]",
        "note": "correct-Horse7battery",
        "nested": [{"text": f"[secret: github-token …{GITHUB[-4:]}]"}],
    }


def test_a_stream_is_masked_across_its_pieces() -> None:
    pem = SHAPES["pem"](random.Random(1))
    data = f"begin\n{pem}\ntoken {GITHUB} end\n".encode()
    for size in (7, 64, 1000):
        pieces = iter([data[at : at + size] for at in range(0, len(data), size)])
        assert (
            b"".join(masking.guard_pieces(pieces, "content", Policy("mask")))
            == masking.mask_secrets(data.decode()).encode()
        )
    binary = b"\0\1" + data
    assert b"".join(masking.guard_pieces(iter([binary]), "content", Policy("mask"))) == binary


def test_masked_secrets_are_stored_nowhere(open_memory: Callable[..., Memory]) -> None:
    """In every kind, nested, in streams, in tool arguments, in the index."""
    memory = open_memory(secrets="mask")
    before = masking.counts().get("github-token", 0)
    write_everywhere(memory, GITHUB)
    assert GITHUB.encode() not in kept(memory)
    assert masking.counts()["github-token"] > before + 15
    assert all(finding.ok for finding in memory.verify())


@one_engine
def test_flagged_secrets_are_stored_and_counted(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(secrets="flag")
    before = masking.seen()
    scope_of(memory, "ada").state.set("k", GITHUB)
    assert scope_of(memory, "ada").state.get("k").value == GITHUB
    assert masking.seen() == before + 1


@one_engine
def test_a_rejection_names_field_and_kind_but_not_the_secret(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory(secrets="reject")
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add()
    writes: dict[str, Callable[[], object]] = {
        "content": lambda: me.messages.append(session.id, "user", f"it is {GITHUB}"),
        "value": lambda: me.state.set("k", {"x": GITHUB}),
        "text": lambda: me.notes.append(GITHUB),
        "prompt": lambda: me.agents.add("scout", prompt=GITHUB),
    }
    for field, write in writes.items():
        with pytest.raises(Invalid) as error:
            write()
        assert error.value.field == field
        assert "github-token" in str(error.value)
        assert GITHUB not in str(error.value)
    assert GITHUB.encode() not in kept(memory)


@one_engine
@pytest.mark.parametrize("mode", ["mask", "reject"])
def test_a_name_with_a_secret_is_rejected(open_memory: Callable[..., Memory], mode: str) -> None:
    """A masked name would name something else, so creation is rejected."""
    memory = open_memory(secrets=mode)
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add()
    writes: list[tuple[str, Callable[[], object]]] = [
        ("key", lambda: me.state.set(GITHUB, 1)),
        ("key", lambda: me.messages.append(session.id, "user", "x", key=GITHUB)),
        ("key", lambda: me.refs.add("x", "y", key="key-" + "0a" * 16).key),
        ("id", lambda: me.sessions.add(GITHUB)),
        ("name", lambda: me.agents.add(GITHUB)),
        ("tools", lambda: me.agents.add("other", tools=[GITHUB])),
        ("board", lambda: me.entries.share(GITHUB, ["scout"])),
        ("agents", lambda: me.entries.share("plans", ["scout", GITHUB])),
        ("entries[0].id", lambda: me.entries.add_many([{"content": "x", "id": GITHUB}])),
        ("path", lambda: me.documents.add("title", "text", path=f"docs/{GITHUB}.md")),
        ("author", lambda: me.messages.append(session.id, "assistant", "x", author=GITHUB)),
        ("type", lambda: me.refs.add("x", "y", type=GITHUB).key),
    ]
    for field, write in writes:
        with pytest.raises(Invalid) as error:
            write()
        assert error.value.field == field
        assert GITHUB not in str(error.value)
    assert GITHUB.encode() not in kept(memory)


@one_engine
def test_existing_names_with_secrets_still_work(open_memory: Callable[..., Memory]) -> None:
    scope_of(open_memory(), "ada").state.set(GITHUB, 1)
    me = scope_of(open_memory(secrets="reject"), "ada")
    assert me.state.get(GITHUB).value == 1
    me.state.remove(GITHUB)


@one_engine
def test_nothing_is_masked_when_off(memory: Memory) -> None:
    before = masking.seen()
    write_everywhere(memory, GITHUB)
    assert masking.seen() == before
    assert GITHUB.encode() in kept(memory)


@one_engine
def test_model_output_is_masked(open_memory: Callable[..., Memory]) -> None:
    """A summary of older content does not restore a secret; nothing is rejected for it."""
    before = open_memory()
    session = scope_of(before, "ada", "scout").sessions.add()
    scope_of(before, "ada", "scout").messages.extend(
        session.id, [{"role": "user", "content": f"number {n}: {GITHUB}"} for n in range(12)]
    )
    memory = open_memory(
        secrets="reject", summary_enabled=True, summary_threshold=5, summary_keep_last=2
    )
    models = Models(memory.settings, summary=ScriptedModel(f"{SAID} {GITHUB}."))
    folded = scope_of(
        Memory(replace(memory.services, models=models), memory.migrations), "ada", "scout"
    )
    assert (
        folded.summaries.fold(session.id).text == f"{SAID} [secret: github-token …{GITHUB[-4:]}]."
    )
