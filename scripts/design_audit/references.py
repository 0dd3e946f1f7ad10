"""The third design: short placeholders in the prompt, large contents in a store."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from design_audit.audit import (
    COMMAND,
    SCOUT,
    Audit,
    Now,
    eventually,
    everything,
    refusal,
    system_text,
    talk,
    tool,
)
from memorist import captured
from memorist.testing import EchoModel, ScriptedModel, calling

PLACEHOLDER = re.compile(r"\[MemoryRef: ([A-Za-z0-9._-]+) - ([^\]]+)\]")
SENTENCE = "The night train to Lisbon leaves Madrid at ten o'clock. "
SUMMARY = (
    "Ada asked for the installation of a package, which succeeded. Then she and the agent spoke at "
    "length about a long and winding journey by train through the mountains, question by question, "
    "and the agent answered each of her questions about that journey."
)
LOG = "\n".join(f"npm http fetch GET 200 package-{number} {number}ms" for number in range(600))


def capturing(audit: Audit) -> None:
    """Capture an output and get a placeholder."""
    memory = audit.open()
    me = audit.scope(memory)
    session = me.sessions.resume()
    line = me.refs.capture(LOG, source="npm install", status="Success", session=session.id)
    match = PLACEHOLDER.search(line)
    key = match.group(1) if match else ""

    with audit.item("ref-01", "A placeholder has a key and a brief description.") as item:
        item.check("[MemoryRef: key - description]", match)

    with audit.item("ref-02", "An output over the threshold is stored whole.") as item:
        item.check("byte for byte", me.refs.content(key) == LOG.encode())

    with audit.item("ref-03", "The line in the context names the command and its status.") as item:
        item.check("the command", "npm install" in line)
        item.check("the status", "Success" in line)
        item.check("it is one line", "\n" not in line and len(line) < 500)

    with audit.item(
        "ref-04", "The threshold is 500 tokens; a smaller output is not stored."
    ) as item:
        small = SENTENCE * 20
        large = SENTENCE * 60
        item.check(
            "200 words are returned unchanged", me.refs.capture(small, source="cat") == small
        )
        item.check(
            "600 words become a reference", "MemoryRef" in me.refs.capture(large, source="cat")
        )

    with audit.item("ref-05", "Keys are unique and readable.") as item:
        again = PLACEHOLDER.search(me.refs.capture(LOG + "\nend", source="npm install"))
        item.check("the same command gets another key", again and again.group(1) != key)
        item.check("the key names the command", "npm" in key)

    with audit.item("ref-06", "A caller may choose the key, as in `cmd_log_123`.") as item:
        item.check(
            "it is used", me.refs.add("text", "a log", key="cmd_log_123").key == "cmd_log_123"
        )
        item.check(
            "a second time is rejected",
            refusal(lambda: me.refs.add("x", "y", key="cmd_log_123").key),
        )

    with audit.item("ref-07", "A key may have 255 characters.") as item:
        longest = "k" * 255
        item.check(
            "one is stored and read", me.refs.add("text", "long", key=longest).key == longest
        )
        item.check("by its key", me.refs.get(longest).text == "text")

    with audit.item("ref-08", "The metadata has time, command, agent and session.") as item:
        info = me.refs.info(key)
        item.check("time", info.created_at.tzinfo is not None)
        item.check("command", info.metadata["command"] == "npm install")
        item.check("agent", info.agent == "scout")
        item.check("session", info.session == session.id)

    with audit.item("ref-09", "Further metadata can be added.") as item:
        extra = me.refs.add("text", "timed", metadata={"duration_ms": 812}).key
        item.check("it is returned", me.refs.info(extra).metadata["duration_ms"] == 812)

    with audit.item("ref-10", "Content has a type.") as item:
        item.check("of a command by default", info.type == "command_output")
        for kind in ("user_preference", "file_content", "api_response"):
            stored = me.refs.add("text", f"a {kind}", type=kind).key
            item.check(kind, me.refs.info(stored).type == kind)

    with audit.item("ref-11", "Content is text or JSON.") as item:
        answer = me.refs.add({"items": [{"name": "Clara"}]}, "an answer of an API").key
        stored_json = json.loads(me.refs.content(answer))
        item.check("JSON is returned unchanged", stored_json == {"items": [{"name": "Clara"}]})

    with audit.item("ref-12", "A summary is stored with the content and can be changed.") as item:
        item.check("capture wrote one", info.summary)
        changed = me.refs.edit(key, summary="The install of Monday")
        item.check("an edit is kept", me.refs.info(key).summary == changed.summary)

    with audit.item("ref-13", "A reference can be deactivated.") as item:
        before = everything(me.context(session.id, "Hello").messages)
        me.refs.edit(key, is_active=False)
        after = everything(me.context(session.id, "Hello").messages)
        item.check("an active one is in the prompt", key in before)
        item.check("an inactive one is not", key not in after)
        me.refs.edit(key, is_active=True)

    with audit.item(
        "ref-14", "Large contents are stored in files, small ones in the database."
    ) as item:
        folder = audit.folder / "contents"
        folder.mkdir()
        filing = audit.scope(audit.open(ref_folder=str(folder)))
        big = b"0123456789" * 1_000_000
        stored = filing.refs.add(big, "ten megabytes").key
        filing.refs.add("small", "a few bytes")
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        item.check("one file for the large one", sizes == [len(big)])
        item.check("read back whole", filing.refs.content(stored) == big)
        filing.refs.remove(stored)  # other memories of this database use another folder

    with audit.item("ref-15", "A reference can be deleted.") as item:
        me.refs.remove("cmd_log_123")
        item.check("it is gone", "NotFound" in refusal(lambda: me.refs.get("cmd_log_123")))


def retrieving(audit: Audit) -> None:
    """Open a placeholder, whole or in part."""
    memory = audit.open()
    me = audit.scope(memory)
    first = me.sessions.add()
    second = me.sessions.add()

    with audit.item("ref-16", "`store_memory` takes content, description and type.") as item:
        (definition,) = me.tools(["store_memory"])
        inputs = definition.parameters["properties"]
        item.check("the three inputs", inputs.keys() == {"content", "description", "type"})
        answer = tool(
            me, "store_memory", first.id, content=LOG, description="npm log", type="command_output"
        )
        key = answer["memory_key"]
        item.check("it returns the key", me.refs.info(key).type == "command_output")
        item.check("and the placeholder", PLACEHOLDER.fullmatch(answer["placeholder"]))

    with audit.item("ref-17", "`retrieve_memory` returns the content.") as item:
        short = tool(me, "store_memory", content="All went well.", description="result")
        answer = tool(me, "retrieve_memory", memory_key=short["memory_key"])
        item.check("by its key", answer["content"] == "All went well.")

    with audit.item("ref-18", "Large content is read page by page.") as item:
        first_page = tool(me, "retrieve_memory", memory_key=key)
        second_page = tool(me, "retrieve_memory", memory_key=key, page=2)
        item.check("the first page says that there is more", "more" in first_page)
        item.check(
            "the second page continues",
            second_page["content"] and second_page["content"] != first_page["content"],
        )
        item.check("a page is bounded", len(first_page["content"]) < len(LOG) / 2)

    with audit.item("ref-19", "Lines, the beginning, the end or a pattern can be read.") as item:
        parts: tuple[tuple[dict[str, Any], str], ...] = (
            ({"lines": [11, 12]}, "package-10 "),
            ({"head": 1}, "package-0 "),
            ({"tail": 1}, "package-599 "),
            ({"pattern": "package-4[0]2 "}, "package-402 "),
        )
        for options, expected in parts:
            answer = tool(me, "retrieve_memory", memory_key=key, **options)
            item.check(f"{options}", expected in answer["content"] and len(answer["content"]) < 200)

    with audit.item("ref-20", "A part of JSON is read by its path.") as item:
        stored = me.refs.add({"items": [{"name": "Clara"}, {"name": "Ben"}]}, "people").key
        answer = tool(me, "retrieve_memory", memory_key=stored, path="$.items[1].name")
        item.check(
            "$.items[1].name", "Ben" in answer["content"] and "Clara" not in answer["content"]
        )

    with audit.item("ref-21", "A wrong key returns a helpful error.") as item:
        answer = tool(me, "retrieve_memory", memory_key=key[:-1] + "x")
        item.check("it suggests the key", key in answer["error"])

    with audit.item("ref-22", "`search_memory` finds summaries and keys.") as item:
        answer = tool(me, "search_memory", query="npm log")
        hit = next(result for result in answer["results"] if result.get("memory_key") == key)
        item.check("the key and its summary", hit["summary"] == "npm log")

    with audit.item("ref-23", "A search can be limited to a thread.") as item:
        inside = tool(me, "search_memory", query="npm log", thread_id=first.id)
        outside = tool(me, "search_memory", query="npm log", thread_id=second.id)
        item.check("found in its session", key in str(inside))
        item.check("not in another", key not in str(outside))

    with audit.item("ref-24", "Contents are found by meaning, too.") as item:
        me.refs.add("The flight leaves at six.", "departure of the aeroplane", key="flight")
        memory.run_jobs(tenants=[audit.tenant])
        keys = [ref.key for ref in me.refs.search("When does my plane take off?")]
        item.check("without a common word", "flight" in keys)

    with audit.item("ref-25", "Stored content can be opened in later conversations.") as item:
        third = me.sessions.add()
        answer = tool(me, "retrieve_memory", third.id, memory_key=key, head=1)
        item.check("a new session opens it", "package-0" in answer["content"])

    with audit.item("ref-26", "Another user cannot open it.") as item:
        answer = tool(audit.scope(memory, user="bob"), "retrieve_memory", memory_key=key)
        item.check("the key does not exist for them", "error" in answer)

    with audit.item("ref-27", "The three tools are offered over MCP.") as item:
        names, stored_key, content = audit.mcp(memory, _over_mcp)
        wanted = {"store_memory", "retrieve_memory", "search_memory"}
        item.check("they are listed", wanted <= set(names))
        item.check("a stored text", content == "Kept over MCP.")
        item.check("can be read with the library", me.refs.get(stored_key).text == "Kept over MCP.")


async def _over_mcp(client: Any) -> tuple[list[str], str, str]:
    listed = await client.list_tools()
    arguments = {"content": "Kept over MCP.", "description": "a test"}
    stored = await client.call_tool("store_memory", arguments)
    key = stored.structured_content["memory_key"]
    opened = await client.call_tool("retrieve_memory", {"memory_key": key})
    names = [tool.name for tool in listed.tools]
    return names, key, opened.structured_content["content"]


def integration(audit: Audit) -> None:
    """Agents store large outputs automatically."""
    memory = audit.open()
    me = audit.scope(memory)
    session = me.sessions.resume()

    with audit.item("ref-28", "One wrapper captures the results of a tool.") as item:

        @captured(me, session=session.id)
        def install(package: str) -> str:
            """Install a package."""
            return LOG

        result = install("left-pad")
        match = PLACEHOLDER.search(result)
        item.check("its result is a line with a placeholder", match)
        item.check("which names the call", "install('left-pad')" in result)
        item.check("its documentation stays", install.__doc__ == "Install a package.")

    with audit.item("ref-29", "One command runs a program and prints its placeholder.") as item:
        script = "for number in range(2000): print('line', number)"
        done = audit.command("run", "--user", "ada", "--", sys.executable, "-c", script)
        match = PLACEHOLDER.search(done.stdout)
        item.check("it succeeds", done.returncode == 0)
        item.check("the placeholder replaces the output", match and len(done.stdout) < 1000)
        key = match.group(1) if match else ""
        item.check("it opens", "line 1999" in me.refs.get(key, tail=1).text)

    with audit.item("ref-30", "The command keeps the program's exit status.") as item:
        done = audit.command("run", "--user", "ada", "--", sys.executable, "-c", "exit(3)")
        item.check("3 stays 3", done.returncode == 3)

    with audit.item("ref-31", "The context stays small, however long a tool's output is.") as item:
        me.save_turn(
            session.id,
            [
                {"role": "user", "content": "Install it."},
                {
                    "role": "assistant",
                    "content": {
                        "text": "",
                        "tool_calls": [{"id": "c1", "name": "npm", "arguments": "{}"}],
                    },
                },
                {"role": "tool", "content": {"text": LOG, "tool_call_id": "c1"}},
                {"role": "assistant", "content": "Installed."},
            ],
        )
        context = me.context(session.id, "And now?", budget=8000)
        text = everything(context.messages)
        item.check("the raw output is not in it", "package-300 " not in text)
        item.check("a placeholder is", PLACEHOLDER.search(text))
        item.check("it is a fraction of the output", context.report.tokens < 2500)

    with audit.item("ref-32", "The prompt explains what a placeholder is.") as item:
        text = system_text(context.messages)
        item.check("it shows one", "[MemoryRef: key - description]" in text)
        item.check("and names the tool", "retrieve_memory" in text)

    with audit.item("ref-33", "A shorter context keeps the placeholders.") as item:
        talk(me, session.id, 60, "about a long and winding journey by train through the mountains")
        small = me.context(session.id, "And now?", budget=1500)
        window = [entry for entry in small.report.left_out if entry.layer == "window"]
        item.check("messages were left out", window)
        item.check("the placeholders are listed", PLACEHOLDER.search(everything(small.messages)))

    with audit.item("ref-34", "A summary keeps the placeholders.") as item:
        folding = audit.scope(
            audit.open(
                summary=ScriptedModel(SUMMARY),
                summary_enabled=True,
                summary_threshold=10,
                summary_keep_last=4,
            )
        )
        folding.summaries.fold(session.id)
        covered = folding.sessions.get(session.id).summarized_count
        text = everything(folding.context(session.id, "And now?").messages)
        item.check("the turn is summarized", covered > 4)
        item.check("its placeholder is still there", PLACEHOLDER.search(text))

    with audit.item("ref-35", "Long instructions of a user become references, too.") as item:
        fresh = me.sessions.add()
        me.messages.append(fresh.id, "user", "Instructions: " + "do this and that, " * 800)
        me.messages.append(fresh.id, "assistant", "Understood.")
        messages = me.context(fresh.id, "Go on.", budget=8000).messages
        later = next(text for text in map(str, messages) if "Instructions:" in text)
        item.check("they are shortened in later prompts", len(later) < 4000)
        item.check("with a placeholder", "MemoryRef" in later)

    with audit.item("ref-36", "Descriptions need no model.") as item:
        key = PLACEHOLDER.search(me.refs.capture(LOG + "\n!", source="npm ci"))
        item.check("there is one", key and len(key.group(2)) > 5)

    with audit.item("ref-37", "A cheap model can write the descriptions.") as item:
        cheap = ScriptedModel("A list of six hundred fetched packages.")
        main = EchoModel()
        described = audit.scope(audit.open(main=main, summary=cheap))
        line = described.refs.capture(LOG + "\n?", source="npm ci")
        item.check("its sentence is the description", "six hundred fetched packages" in line)
        item.check("the main model is not called", not main.requests)


def conversation(audit: Audit) -> None:
    """References in a running conversation."""
    memory = audit.open()
    me = audit.scope(memory)
    me.agents.add("scout")

    with audit.item(
        "ref-38", "One large message does not push out the rest of the conversation."
    ) as item:
        session = me.sessions.add().id
        for number in range(1, 4):
            me.messages.append(session, "user", f"Short message {number}.")
        me.messages.append(session, "user", "Paste: " + LOG * 2)
        for number in range(4, 7):
            me.messages.append(session, "user", f"Short message {number}.")
        text = everything(me.context(session, "Go on.", budget=8000).messages)
        for number in range(1, 7):
            item.check(f"message {number} is there", f"Short message {number}." in text)
        item.check("so is the beginning of the large one", "Paste: npm http" in text)

    with audit.item("ref-39", "The newest message is never shortened.") as item:
        newest = "Read this: " + SENTENCE * 150
        text = everything(me.context(session, newest, budget=8000).messages)
        item.check("even over the threshold", newest.strip() in text)

    with audit.item("ref-40", "Content that an agent stores is not in its later prompts.") as item:
        keep = {"content": LOG, "description": "the npm log"}
        model = ScriptedModel(calling(("store_memory", keep)), "Stored.", "Yes.")
        http = audit.http(audit.open(main=model))
        fresh = me.sessions.add().id
        chat = {"session_id": fresh, "agent_id": "scout"}
        http.post("/api/chat", json={**chat, "message": "Keep the log."})
        http.post("/api/chat", json={**chat, "message": "Is it kept?"})
        refs = list(me.refs.list(session=fresh))
        later = str(model.requests[-1].messages)
        item.check("the raw text is not", "package-300 " not in later)
        item.check("its key is", len(refs) == 1 and refs[0].key in later)

    with audit.item("ref-41", "Content that an agent stores belongs to the conversation.") as item:
        item.check("its session", [ref.session for ref in refs] == [fresh])
        item.check("its agent", [ref.agent for ref in refs] == ["scout"])

    with audit.item(
        "ref-42", "A model receives the key even if little of the budget is left."
    ) as item:
        model = ScriptedModel(calling(("store_memory", keep)), "Stored.")
        cramped = audit.http(audit.open(main=model, context_tokens=1200))
        narrow = me.sessions.add().id
        body = {"session_id": narrow, "agent_id": "scout", "message": "Keep it."}
        cramped.post("/api/chat", json=body)
        (ref,) = list(me.refs.list(session=narrow))
        item.check("it is in the next request", ref.key in str(model.requests[-1].messages))


def tools_of_agents(audit: Audit) -> None:
    """Tools beyond memory, whose large results become references automatically."""

    def list_packages(prefix: str) -> str:
        """Return all packages with a prefix."""
        return LOG.replace("package", prefix)

    model = ScriptedModel(calling(("list_packages", {"prefix": "crate"})), "There are many.")
    memory = audit.open(main=model, tools=[list_packages])
    me = audit.scope(memory)
    http = audit.http(memory)

    with audit.item(
        "ref-43", "An agent that runs tools stores large outputs automatically."
    ) as item:
        me.agents.add("scout", tools=["list_packages"])
        answer = http.post("/api/chat", json={"message": "Which?", "agent_id": "scout"}).json()
        item.check("the function was called", answer.get("tools") == ["list_packages"])
        refs = list(me.refs.list(session=answer["session_id"]))
        output = LOG.replace("package", "crate").encode()
        item.check("its output is stored whole", [me.refs.content(r.key) for r in refs] == [output])
        shown = str(model.requests[-1].messages)
        item.check("the model sees the placeholder", refs[0].key in shown)
        item.check("not the output", "crate-300 " not in shown)

    with audit.item("ref-44", "The model can open the stored output of its tool.") as item:
        item.check(
            "retrieve_memory is among its tools", "retrieve_memory" in model.requests[0].tools
        )

    with audit.item("ref-45", "An unknown tool name is rejected when the agent is saved.") as item:
        problem = refusal(lambda: me.agents.edit("scout", tools=["list_package"]))
        item.check("as invalid", problem.startswith("Invalid"))

    with audit.item("ref-46", "The tools of an MCP server are treated the same way.") as item:
        own = ["mcp", "--database", audit.database, "--tenant", audit.tenant]
        server = {"command": COMMAND, "args": [*own, "--user", "ada", "--agent", "scout"]}
        me.notes.overwrite("# Diary\n\n" + SENTENCE * 100)
        read = calling(("diary__manage_long_term_memory", {}))
        reading = ScriptedModel(read, "A long diary.")
        other = audit.open(main=reading, mcp_servers={"diary": server})
        audit.scope(other).agents.edit("scout", tools=["diary"])
        session = me.sessions.add().id
        body = {"message": "Read it.", "agent_id": "scout", "session_id": session}
        answer = audit.http(other).post("/api/chat", json=body).json()
        item.check("its tool was called", answer.get("tools") == ["diary__manage_long_term_memory"])
        refs = list(me.refs.list(session=session))
        item.check("the result is a reference", len(refs) == 1)
        item.check("which is whole", me.refs.content(refs[0].key).count(b"Lisbon") == 100)


def consolidating(audit: Audit) -> None:
    """Short-term memories become documents."""
    now = Now()
    answer = '{"memories": [{"content": "Ada likes night trains.", "sources": [1]}]}'
    memory = audit.open(main=ScriptedModel(answer), clock=now)
    me = audit.scope(memory)
    http = audit.http(memory)
    me.entries.add("Ada took the night train to Lisbon and enjoyed it.")
    now.pass_days(6)

    with audit.item("ref-47", "Short-term memories become documents of a knowledge base.") as item:
        (proposal,) = me.consolidations.propose()
        path = f"/api/consolidations/{proposal.id}"
        accepted = http.post(f"{path}/accept", json={"into": "documents"}, headers=SCOUT)
        item.check("the request succeeds", accepted.status_code == 200)
        documents = list(me.documents.list())
        item.check("there is a document", len(documents) == 1)
        item.check("which a search finds", me.documents.search("night trains"))
        http.post(f"{path}/undo", json={}, headers=SCOUT)
        item.check("it can be undone", documents and not list(me.documents.list()))

    with audit.item("ref-48", "A periodic job does this if a setting enables it.") as item:
        me.entries.add("Ada bought a ticket for the night train to Porto.")
        now.pass_days(6)
        job = audit.open(main=ScriptedModel(answer), clock=now, consolidate="documents")
        audit.http(job, jobs=True)
        item.check("a document", eventually(lambda: me.documents.search("night trains")))


GROUPS = (capturing, retrieving, integration, conversation, tools_of_agents, consolidating)
