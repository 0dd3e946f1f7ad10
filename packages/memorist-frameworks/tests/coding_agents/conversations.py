"""Three conversations of sixty messages about one project, and questions about them.

`transcript_of` writes a conversation in the format of a host, with the lines beside the messages
that hosts write: thoughts, tool calls and their outputs, and text that the host adds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coding_agents.transcripts import lines

TURNS = 30  # of a conversation: a prompt and an answer


class Question(NamedTuple):
    """A question about a conversation, and words of the text that answers it."""

    conversation: int  # 0 is the oldest
    turn: int  # that the answer is in
    prompt: str
    answer: str  # what was said
    asked: str
    expected: str  # part of the prompt or of the answer


PNPM = "Which package manager do we use in the billing service?"
QUESTIONS = (
    Question(
        0,
        1,
        "The staging cluster runs in Frankfurt, production in Dublin.",
        "Noted: staging is in Frankfurt and production is in Dublin.",
        "In which city does the production cluster run?",
        "production in Dublin",
    ),
    Question(
        0,
        6,
        "Why do the invoices of March have the wrong total?",
        "The VAT was rounded per line instead of once for the whole invoice.",
        "What was the cause of the wrong invoice totals?",
        "rounded per line",
    ),
    Question(
        0,
        10,
        "Never commit to main directly; every change goes through a merge request with two reviews.",
        "Understood, I will open a merge request for each change.",
        "How many reviews does a merge request need?",
        "two reviews",
    ),
    Question(
        0,
        14,
        "Mira owns the payment gateway, ask her before touching its retry logic.",
        "I will leave the retry logic alone until Mira agrees.",
        "Who owns the payment gateway?",
        "Mira owns the payment gateway",
    ),
    Question(
        0,
        19,
        "Which Python version does the importer need?",
        "The importer needs Python 3.12, because it uses itertools.batched.",
        "What Python version is required by the importer?",
        "Python 3.12",
    ),
    Question(
        0,
        24,
        "Keep the session cookies for fourteen days, the lawyers agreed to that.",
        "I set the lifetime of the session cookies to fourteen days.",
        "How long do session cookies live?",
        "fourteen days",
    ),
    Question(
        0,
        29,
        "Where do the nightly backups go?",
        "They go to the bucket shop-backups-eu, encrypted with the key of the ops team.",
        "Which bucket holds the nightly backups?",
        "shop-backups-eu",
    ),
    Question(
        1,
        0,
        "The orders table is partitioned by month since January.",
        "Good to know, then the query needs a filter on the month.",
        "How is the orders table partitioned?",
        "partitioned by month",
    ),
    Question(
        1,
        4,
        "Our API returns money as integers in cents, never as floats.",
        "I changed the price field to an integer number of cents.",
        "In which unit does our API return money?",
        "integers in cents",
    ),
    Question(
        1,
        9,
        "The flaky checkout test fails only on Fridays.",
        "It compared a weekday name in the local language with an English one; I pinned the locale.",
        "Why was the checkout test flaky?",
        "pinned the locale",
    ),
    Question(
        1,
        13,
        "Use the word customer in the interface, not client.",
        "I renamed the labels from client to customer.",
        "Do we say customer or client in the interface?",
        "customer in the interface",
    ),
    Question(
        1,
        18,
        "What limits the upload of product photos?",
        "The reverse proxy rejects bodies above 8 megabytes; I raised it to 25.",
        "What is the upload limit for product photos?",
        "above 8 megabytes",
    ),
    Question(
        1,
        23,
        "Deploys are forbidden between the 20th of December and the 2nd of January.",
        "Then I will plan the migration for the 7th of January.",
        "When are deploys forbidden?",
        "20th of December",
    ),
    Question(
        1,
        28,
        "The feature flag new_basket must stay off for wholesale accounts.",
        "I added a condition, so new_basket is off for wholesale accounts.",
        "For which accounts must the flag new_basket stay off?",
        "wholesale accounts",
    ),
    Question(
        2,
        2,
        "We use pnpm, never npm, in the billing service.",
        "Understood, I removed package-lock.json and added pnpm-lock.yaml.",
        PNPM,
        "We use pnpm, never npm",
    ),
    Question(
        2,
        5,
        "How does the warehouse tell us about returns?",
        "It posts a webhook to /hooks/returns, signed with HMAC-SHA256.",
        "Which path receives the webhook about returns from the warehouse?",
        "/hooks/returns",
    ),
    Question(
        2,
        8,
        "Our search index is rebuilt every Sunday at 03:00 UTC.",
        "I will not schedule the reindexing at the same time.",
        "When is the search index rebuilt?",
        "every Sunday at 03:00",
    ),
    Question(
        2,
        12,
        "Why is the dashboard of sales slow?",
        "It loads all rows of line_items; an aggregate table by day makes it fast.",
        "What makes the sales dashboard slow?",
        "all rows of line_items",
    ),
    Question(
        2,
        16,
        "Log messages must never contain an e-mail address; use the customer number.",
        "I replaced the address in three log statements by the customer number.",
        "May an e-mail address appear in log messages?",
        "never contain an e-mail address",
    ),
    Question(
        2,
        21,
        "The currency rates come from the European Central Bank, once a day.",
        "I load them at 16:30, after they are published.",
        "Where do our currency rates come from?",
        "European Central Bank",
    ),
)
LAST_PROMPT = "The icon set of the admin pages is Lucide."
LAST_ANSWER = "I will take the missing icons from it."
"""The last turn of the newest conversation, which its host still has in front of it."""

_FILES = ("cart.py", "stock.py", "mailer.ts", "labels.css", "report.sql", "auth.go", "cache.rs")
_NAMES = ("load_rows", "parse_line", "send_later", "merge_items", "draw_table", "check_token")
_TASKS = (
    ("Rename {name} in {file} to something shorter.", "Renamed it in {file}; {n} callers changed."),
    ("Run the tests of {file}.", "All {n} tests of {file} pass."),
    ("Add type hints to {name}.", "Added them; the type checker reports no errors in {file}."),
    ("Please explain what {name} does.", "{name} walks over the input of {file} in {n} steps."),
    ("Split {file} into two modules.", "Done, {name} moved into a module of its own."),
    ("Is {name} still called anywhere?", "Yes, {n} times, most of them in {file}."),
    ("Fix the warning about {name} in {file}.", "The warning is gone: a variable was unused."),
    ("Write a docstring for {name}.", "Wrote it, with an example of {n} lines."),
)


def conversation(number: int) -> list[tuple[str, str]]:
    """Return the roles and texts of a conversation."""
    answered = {
        question.turn: question for question in QUESTIONS if question.conversation == number
    }
    messages = []
    for turn in range(TURNS):
        if question := answered.get(turn):
            prompt, answer = question.prompt, question.answer
        elif (number, turn) == (2, TURNS - 1):
            prompt, answer = LAST_PROMPT, LAST_ANSWER
        else:
            place = number * TURNS + turn
            words = {
                "file": _FILES[place % len(_FILES)],
                "name": _NAMES[place % len(_NAMES)],
                "n": place + 2,
            }
            prompt, answer = (text.format(**words) for text in _TASKS[place % len(_TASKS)])
        messages += [("user", prompt), ("assistant", answer)]
    return messages


def transcript_of(host: str, number: int) -> str:
    """Return a conversation as a host writes it to its transcript."""
    rows: list[dict[str, Any]] = []
    for place, (role, text) in enumerate(conversation(number)):
        at = f"2026-11-1{number}T10:{place:02}:00.000Z"
        rows += _ROWS[host](role, text, f"m{place}", at)
    return lines(*rows)


def _claude_code(role: str, text: str, id: str, at: str) -> list[dict[str, Any]]:
    shared = {"isSidechain": False, "timestamp": at, "sessionId": "s", "version": "2.1.197"}
    if role == "user":
        return [{**shared, "type": role, "uuid": id, "message": {"role": role, "content": text}}]
    thinking = {"type": "thinking", "thinking": "Let me look at the code."}
    call = {"type": "tool_use", "id": f"t{id}", "name": "Read", "input": {"file_path": "x"}}
    output = {"type": "tool_result", "tool_use_id": f"t{id}", "content": "1\timport sys"}
    rows = []
    for part, (kind, content) in enumerate(
        (
            ("assistant", thinking),
            ("assistant", call),
            ("user", output),
            ("assistant", {"type": "text", "text": text}),
        )
    ):
        message = {"role": kind, "content": [content]}
        rows.append({**shared, "type": kind, "uuid": f"{id}-{part}", "message": message})
    return rows


def _codex(role: str, text: str, id: str, at: str) -> list[dict[str, Any]]:
    kind = "input_text" if role == "user" else "output_text"
    content = [{"type": kind, "text": text}]
    message = {"type": "message", "id": id, "role": role, "content": content}
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": id}
    payloads = [message] if role == "user" else [call, message]
    return [{"timestamp": at, "type": "response_item", "payload": part} for part in payloads]


def _gemini(role: str, text: str, id: str, at: str) -> list[dict[str, Any]]:
    if role == "user":
        return [{"id": id, "timestamp": at, "type": "user", "content": [{"text": text}]}]
    calls = [{"id": f"t{id}", "name": "read_file", "args": {}, "status": "success"}]
    return [
        {"id": id, "timestamp": at, "type": "gemini", "content": text, "toolCalls": calls},
        {"$set": {"lastUpdated": at}},
    ]


def _vscode(role: str, text: str, id: str, at: str) -> list[dict[str, Any]]:
    if role == "user":
        data: dict[str, Any] = {"content": text, "attachments": []}
        return [{"type": "user.message", "data": data, "id": id, "timestamp": at}]
    start = {"type": "tool.execution_start", "data": {"toolName": "read_file"}, "id": f"t{id}"}
    data = {"messageId": id, "content": text, "toolRequests": []}
    return [start, {"type": "assistant.message", "data": data, "id": id, "timestamp": at}]


_ROWS = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    "vscode": _vscode,
}
