"""The one table of ways in: which verbs of which kinds can be called from outside, and what their parameters mean.

A face is built from this table and the typed signatures of the verbs: adding a verb to a kind takes one line here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """One verb, and the command that a person would try first."""

    kind: str
    verb: str
    example: str

    @property
    def word(self) -> str:
        """How the command line names the verb."""
        return self.verb.replace("_", "-")

    @property
    def command(self) -> str:
        """How the command line names it."""
        return f"{self.kind} {self.word}"


WAYS = (
    Way("agents", "add", 'retain agents add scout --prompt "You scout ahead." --tools search,notes'),
    Way("agents", "list", "retain agents list"),
    Way("agents", "get", "retain agents get scout --json"),
    Way("agents", "edit", "retain agents edit scout --model gpt-5-mini --if-version 1"),
    Way("agents", "remove", "retain agents remove scout"),
    Way("sessions", "resume", "retain sessions resume --user ada --agent scout"),
    Way("sessions", "add", "retain sessions add trip --user ada --agent scout --label 'A trip'"),
    Way("sessions", "active", "retain sessions active --user ada --agent scout"),
    Way("sessions", "activate", "retain sessions activate trip"),
    Way("sessions", "list", "retain sessions list --user ada --limit 20"),
    Way("sessions", "get", "retain sessions get trip --json"),
    Way("sessions", "edit", """retain sessions edit trip --label 'Lisbon' --attributes '{"pinned": true}'"""),
    Way("sessions", "remove", "retain sessions remove trip"),
    Way("messages", "append", 'retain messages append trip user "Where do we go?" --key turn-1'),
    Way("messages", "extend", "retain messages extend trip turns.jsonl --key turn-2"),
    Way("messages", "window", "retain messages window trip --last 20 --turns-only"),
    Way("messages", "list", "retain messages list trip --limit 50 --json"),
    Way("messages", "get", "retain messages get trip 1"),
    Way("notes", "read", "retain notes read --user ada --agent scout"),
    Way("notes", "overwrite", 'retain notes overwrite "# Preferences" --user ada --agent scout'),
    Way("notes", "append", 'retain notes append "- prefers tea" --user ada --agent scout'),
    Way("notes", "prepend", 'retain notes prepend "Speak German." --user ada --agent scout'),
    Way("notes", "replace_section", 'retain notes replace-section Preferences "- coffee, now" --user ada --agent scout'),
    Way("notes", "delete_section", "retain notes delete-section '# Preferences' --user ada --agent scout"),
    Way("notes", "clear", "retain notes clear --user ada --agent scout"),
    Way("notes", "history", "retain notes history --user ada --agent scout --limit 10"),
    Way("notes", "diff", "retain notes diff 4 --against 1 --user ada --agent scout"),
    Way("notes", "restore", "retain notes restore 3 --user ada --agent scout"),
    Way("notes", "changes", "retain notes changes --after 6 --wait 30 --user ada --agent scout --json"),
    Way("state", "set", """retain state set theme '{"dark": true}' --user ada --ttl 3600"""),
    Way("state", "get", "retain state get theme --user ada"),
    Way("state", "list", "retain state list --prefix the --user ada"),
    Way("state", "remove", "retain state remove theme --user ada"),
    Way("interactions", "add", "retain interactions add chat gpt-5-mini --latency-ms 812.5 --tokens-in 900 --tokens-out 40"),
    Way("interactions", "list", "retain interactions list --model gpt-5-mini"),
    Way("interactions", "totals", "retain interactions totals model"),
)

WORDS = {
    "after": "Go on after this cursor, from the end of the page before; for changes, after this version.",
    "against": "The version to compare with; the one before it where not given.",
    "area": "Whose state: `user`, `tenant` or `session:ID`.",
    "attributes": "A JSON object of your own.",
    "author": "Who speaks, where several agents do.",
    "by": "What to add up by.",
    "color": "A colour to show the agent in.",
    "content": "The text, or `-` to read it from standard input.",
    "cost": "What it cost, in the currency you count in.",
    "created_at": "When it was said, with a time zone, for history from elsewhere.",
    "error": "What went wrong, if it did.",
    "expected_last_seq": "Append only if the session's last message has this number.",
    "header": "The heading of a section: `Preferences`, or `## Preferences` where several are called alike.",
    "icon": "An icon to show the agent with.",
    "id": "The session's id.",
    "if_version": "Only if it is at this version; 0 means: only if it does not exist.",
    "key": "The key. For messages an idempotency key: a retry with the same key adds nothing.",
    "label": "A name for people.",
    "last": "The last so many messages.",
    "latency_ms": "How long the call took, in milliseconds.",
    "limit": "The most records to return.",
    "messages": "A file with one JSON message a line, or `-` for standard input.",
    "minutes": "The messages of the last so many minutes.",
    "model": "The model's name.",
    "name": "The agent's name.",
    "parameters": "A JSON object with the call's parameters.",
    "prefix": "Only keys that start with this.",
    "prompt": "The agent's system prompt.",
    "role": "Who speaks: system, user, assistant or tool.",
    "route": "Which part of your program made the call.",
    "seq": "The message's number in its session.",
    "session": "The session's id.",
    "since": "From this moment on, with a time zone.",
    "stored_id": "The id that the client remembers, if it does.",
    "text": "The text, or `-` to read it from standard input.",
    "tokens": "The newest messages that fit into so many tokens.",
    "tokens_in": "Tokens that the model read.",
    "tokens_out": "Tokens that the model wrote.",
    "tools": "The tools that the agent may use, with commas between them.",
    "ttl": "Forget it after so many seconds.",
    "turns_only": "Only user messages and final answers.",
    "until": "Before this moment, with a time zone.",
    "value": "The value, as JSON; text needs its quotes.",
    "version": "The number of a version.",
    "wait": "Wait up to so many seconds for a change.",
}
"""What each parameter of a verb means, wherever it is shown."""
