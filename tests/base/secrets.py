"""Write a text through every input, and read everything stored."""

from __future__ import annotations

import io
import json

from memorist import JsonText, Memory
from memorist.kinds.refs import NewReference
from testkit.memories import scope_of
from testkit.search_index import indexed_documents


def write_everywhere(memory: Memory, secret: str) -> None:
    """Write the secret through every input."""
    me = scope_of(memory, "ada", "scout")
    me.agents.add("scout", prompt=f"use {secret}")
    session = me.sessions.add(label=f"label {secret}"[:900], attributes={"deep": [{"x": secret}]})
    me.sessions.edit(session.id, attributes={"a": secret})
    me.messages.append(session.id, "user", f"text {secret}")
    me.messages.append(
        session.id, "assistant", {"text": "t", "parts": [{"type": "text", "text": secret}]}
    )
    me.messages.append(
        session.id, "assistant", JsonText(f'{{"text": "{secret}", "text": "again"}}')
    )
    me.notes.overwrite(f"# {secret}\n\n{secret}")
    me.entries.add(f"remember {secret}")
    me.entries.add_many([{"content": f"again {secret}", "kind": "core"}])
    me.state.set("k", {"list": [secret]})
    me.refs.add(f"long {secret}", f"about {secret}", metadata={"m": secret})
    me.refs.add({"json": [secret]}, "as json")
    new = NewReference(io.BytesIO(f"line\n{secret}\n".encode()), "piped")
    me.refs.prepare.keep(me.refs.prepare(new))
    line = me.refs.capture(
        f"{secret} " + "word " * 2000, source=f"login {secret}", session=session.id
    )
    me.notes.append(f"The agent was told: {line}")
    me.documents.add(f"title {secret}", f"# Head\n\nbody {secret}")
    me.interactions.add(
        f"by {secret}",
        f"m {secret}",
        latency_ms=1.0,
        parameters={"p": secret},
        error=f"failed: {secret}",
    )
    me.save_turn(
        session.id,
        [{"role": "user", "content": secret}, {"role": "assistant", "content": f"{secret} " * 300}],
    )
    for tool in me.tools(["save_to_core", "manage_long_term_memory", "store_memory"]):
        named = {
            "save_to_core": {"content": secret},
            "store_memory": {"content": secret, "description": "d", "type": "note"},
        }
        assert "error" not in tool.call(
            named.get(tool.name, {"operation": "append", "content": secret})
        )


def kept(memory: Memory) -> bytes:
    """Return everything stored, by export, and what the index is made of."""
    file = io.BytesIO()
    memory.export(file)
    indexed = [
        (document.title, document.text)
        for kind in memory.services.findables
        for document in indexed_documents(memory, kind)
    ]
    return file.getvalue() + json.dumps(indexed).encode()
