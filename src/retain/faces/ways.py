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
    itself: bool = False
    """Whether it prints what was asked for and nothing else, to be read or put into a file."""

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
    Way("summaries", "get", "retain summaries get trip"),
    Way("summaries", "list", "retain summaries list trip --limit 5"),
    Way("summaries", "fold", "retain summaries fold trip --force"),
    Way("summaries", "expand", "retain summaries expand trip --limit 50"),
    Way("notes", "read", "retain notes read --user ada --agent scout > notes.md", itself=True),
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
    Way("entries", "add", 'retain entries add "Ada prefers trains to planes." --kind core --agent scout'),
    Way("entries", "list", "retain entries list --agent scout --search 'train lisbon'"),
    Way("entries", "search", "retain entries search 'what does Ada prefer' --agent scout"),
    Way("entries", "get", "retain entries get 0199… --json"),
    Way("entries", "edit", 'retain entries edit 0199… "Ada prefers night trains." --if-version 1'),
    Way("entries", "remove", "retain entries remove 0199…"),
    Way("entries", "counts", "retain entries counts --agent scout"),
    Way("entries", "prompt", "retain entries prompt --agent scout"),
    Way("entries", "share", "retain entries share trips scout,planner"),
    Way("entries", "boards", "retain entries boards"),
    Way("entries", "whiteboard", "retain entries whiteboard --agent scout"),
    Way("entries", "export", "retain entries export --agent scout --json > scout.json"),
    Way("entries", "add_many", "retain entries add-many scout.json --agent scout"),
    Way("consolidations", "propose", "retain consolidations propose --agent scout --days 5"),
    Way("consolidations", "list", "retain consolidations list --status proposed"),
    Way("consolidations", "get", "retain consolidations get 0199… --json"),
    Way("consolidations", "accept", "retain consolidations accept 0199…"),
    Way("consolidations", "refuse", "retain consolidations refuse 0199…"),
    Way("consolidations", "undo", "retain consolidations undo 0199…"),
    Way("refs", "add", 'retain refs add "Ada flies to Lisbon on 3 May." "travel dates" --type user_preference --user ada'),
    Way("refs", "capture", "npm install 2>&1 | retain refs capture - --source 'npm install' --session trip"),
    Way("refs", "get", "retain refs get npm-install-7f3a09c1 --grep 'ERR!'"),
    Way("refs", "content", "retain refs content npm-install-7f3a09c1 > install.log"),
    Way("refs", "info", "retain refs info npm-install-7f3a09c1 --json"),
    Way("refs", "list", "retain refs list --session trip --active"),
    Way("refs", "search", "retain refs search 'npm peer dependency' --limit 5"),
    Way("refs", "edit", "retain refs edit npm-install-7f3a09c1 --summary 'The install that failed' --no-is-active"),
    Way("refs", "remove", "retain refs remove npm-install-7f3a09c1"),
    Way("state", "set", """retain state set theme '{"dark": true}' --user ada --ttl 3600"""),
    Way("state", "get", "retain state get theme --user ada", itself=True),
    Way("state", "list", "retain state list --prefix the --user ada"),
    Way("state", "remove", "retain state remove theme --user ada"),
    Way("knowledge", "add", "retain knowledge add handbook.pdf docs/ --pattern '*.md'"),
    Way("knowledge", "list", "retain knowledge list --prefix docs/"),
    Way("knowledge", "get", "retain knowledge get 0199… --json"),
    Way("knowledge", "text", "retain knowledge text 0199…"),
    Way("knowledge", "passages", "retain knowledge passages 0199… --seq 12 --around 1"),
    Way("knowledge", "search", "retain knowledge search 'how do I reset the router'"),
    Way("knowledge", "counts", "retain knowledge counts"),
    Way("knowledge", "remove", "retain knowledge remove 0199…"),
    Way("interactions", "add", "retain interactions add chat gpt-5-mini --latency-ms 812.5 --tokens-in 900 --tokens-out 40"),
    Way("interactions", "list", "retain interactions list --model gpt-5-mini"),
    Way("interactions", "totals", "retain interactions totals model"),
    Way("turns", "list", "retain turns list trip"),
    Way("turns", "get", "retain turns get 0199… --json"),
)

WORDS = {
    "active": "Only active references, or with --no-active only the others.",
    "after": "Go on after this cursor, from the end of the page before.",
    "against": "The version to compare with; the one before it where not given.",
    "agents": "The agents that share the board, with commas between them.",
    "area": "Whose state: `user`, `tenant` or `session:ID`.",
    "around": "So many before it and after it, too.",
    "attributes": "A JSON object of your own.",
    "author": "Who speaks, where several agents do.",
    "board": "Which whiteboard; `main` where an entry does not say.",
    "by": "What to add up by.",
    "color": "A colour to show the agent in.",
    "consolidations.status": "Only those with this status.",
    "content": "The text, or `-` to read it from standard input.",
    "cost": "What it cost, in the currency you count in.",
    "created_at": "When it was said, with a time zone, for history from elsewhere.",
    "days": "Entries older than so many days.",
    "description": "One line that says what it is; without one, it is written from the content.",
    "entries": "A file with one JSON entry a line or a list of them, or `-` for standard input.",
    "error": "What went wrong, if it did.",
    "expected_last_seq": "Append only if the session's last message has this number.",
    "expired": "Only entries that have faded, or only ones that have not.",
    "force": "Do it now, whatever the settings say about when.",
    "grep": "The lines that match a regular expression, with their numbers.",
    "head": "The first so many lines.",
    "header": "The heading of a section: `Preferences`, or `## Preferences` where several are called alike.",
    "icon": "An icon to show the agent with.",
    "id": "The id.",
    "if_version": "Only if it is at this version; 0 means: only if it does not exist.",
    "is_active": "Whether it is listed in prompts.",
    "key": "The key.",
    "kind": "What kind of entry: `journal`, `core` or `whiteboard`.",
    "knowledge.path": "Where it comes from: adding it again replaces what was added with the same path.",
    "knowledge.prefix": "Only documents whose path starts with this.",
    "knowledge.seq": "The number of one passage, as a search says it.",
    "label": "A name for people.",
    "last": "The last so many messages.",
    "latency_ms": "How long the call took, in milliseconds.",
    "limit": "The most records to return.",
    "lines": "The first and the last line to show, such as 1-40.",
    "media": "What it is: text, markdown, html or pdf; seen from its beginning where not given.",
    "messages": "A file with one JSON message a line, or `-` for standard input.",
    "messages.key": "An idempotency key: a retry with the same key adds nothing.",
    "metadata": "A JSON object of your own: where it came from, how long it took.",
    "minutes": "The messages of the last so many minutes.",
    "model": "The model's name.",
    "name": "The agent's name.",
    "notes.after": "Changes after this version.",
    "number": "Which of the summaries: 1 is the first fold.",
    "output": "The output, or `-` to read it from standard input.",
    "page": "A page, from 1.",
    "parameters": "A JSON object with the call's parameters.",
    "path": "A JSON path, such as $.items[0].name.",
    "prefix": "Only keys that start with this.",
    "prompt": "The agent's system prompt.",
    "query": "Words to look for.",
    "refs.key": "The key, as it stands in the placeholder.",
    "refs.tokens": "The most tokens to show, 50 to 100000.",
    "role": "Who speaks: system, user, assistant or tool.",
    "route": "Which part of your program made the call.",
    "search": "Only those in which all these words are.",
    "seq": "The message's number in its session.",
    "session": "The session's id.",
    "since": "From this moment on, with a time zone.",
    "source": "The command that made it.",
    "status": "How the command ended.",
    "stored_id": "The id that the client remembers, if it does.",
    "summary": "One line that says what it is.",
    "tail": "The last so many lines.",
    "text": "The text, or `-` to read it from standard input.",
    "title": "What it is called.",
    "tokens": "The newest messages that fit into so many tokens.",
    "tokens_in": "Tokens that the model read.",
    "tokens_out": "Tokens that the model wrote.",
    "tools": "The tools that the agent may use, with commas between them.",
    "ttl": "Forget it after so many seconds.",
    "turns_only": "Only user messages and final answers.",
    "type": "What it is, such as command_output, user_preference or file_content.",
    "until": "Before this moment, with a time zone.",
    "value": "The value, as JSON; text needs its quotes.",
    "version": "The number of a version.",
    "wait": "Wait up to so many seconds for a change.",
}
"""What each parameter of a verb means, wherever it is shown; with a kind before it, what it means there."""


def word(kind: str, parameter: str) -> str:
    """What a parameter of a kind's verbs means."""
    return WORDS.get(f"{kind}.{parameter}") or WORDS[parameter]
