"""The one table of ways in: which verbs of which kinds can be called from outside, and what their parameters mean.

A face is built from this table and the typed signatures of the verbs: adding a verb to a kind takes one line here.
"""

from __future__ import annotations

from dataclasses import dataclass

from retain.auth.principal import Permission

_REMOVES = ("remove", "remove_many", "pop", "clear", "delete_section")
_READS = ("search", "context")
FOR_PEOPLE = frozenset({"entries_accept", "entries_refuse", "entries_queue"})
"""What only a person may do: over MCP, where agents call, there are no such tools, and no entry that waits is shown."""


@dataclass(frozen=True)
class Endpoint:
    """One verb, the request that reaches it, and the command that a person would try first."""

    kind: str
    verb: str
    request: str
    """The HTTP method, and the route below `/api`; what is not in the route is in the query or in the body."""
    example: str
    itself: bool = False
    """Whether it prints what was asked for and nothing else, to be read or put into a file."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.request.partition(" ")[0]

    @property
    def route(self) -> str:
        """Where HTTP finds it."""
        return "/api" + self.request.partition(" ")[2]

    @property
    def needs(self) -> Permission:
        """What a key must allow: whoever may only read changes nothing, and whoever may only write removes nothing."""
        if self.verb in _REMOVES:
            return "delete"
        return "read" if self.method == "GET" or self.verb in _READS else "write"

    @property
    def tells(self) -> bool:
        """Whether it also tells what it removed, for which a key must allow reading, too."""
        return self.verb == "pop"

    @property
    def name(self) -> str:
        """How a program that wants one word names it."""
        return f"{self.kind}_{self.verb}".removeprefix("_")

    @property
    def operation(self) -> str:
        """Its name in metrics and traces."""
        return f"{self.kind}.{self.verb}".removeprefix(".")

    @property
    def word(self) -> str:
        """How the command line names the verb."""
        return self.verb.replace("_", "-")

    @property
    def command(self) -> str:
        """How the command line names it."""
        return f"{self.kind} {self.word}"


ENDPOINTS = (
    Endpoint(
        "agents",
        "add",
        "POST /agents",
        'retain agents add scout --prompt "You scout ahead." --tools search,notes',
    ),
    Endpoint("agents", "list", "GET /agents", "retain agents list"),
    Endpoint("agents", "get", "GET /agents/{name:path}", "retain agents get scout --json"),
    Endpoint(
        "agents",
        "edit",
        "PATCH /agents/{name:path}",
        "retain agents edit scout --model gpt-5-mini --if-version 1",
    ),
    Endpoint("agents", "remove", "DELETE /agents/{name:path}", "retain agents remove scout"),
    Endpoint(
        "sessions",
        "resume",
        "POST /sessions/resume",
        "retain sessions resume --user ada --agent scout",
    ),
    Endpoint(
        "sessions",
        "add",
        "POST /sessions",
        "retain sessions add trip --user ada --agent scout --label 'A trip'",
    ),
    Endpoint(
        "sessions",
        "active",
        "GET /sessions/active",
        "retain sessions active --user ada --agent scout",
    ),
    Endpoint(
        "sessions", "activate", "POST /sessions/{id:path}/activate", "retain sessions activate trip"
    ),
    Endpoint(
        "sessions", "list", "GET /sessions", "retain sessions list --user ada --search lisbon"
    ),
    Endpoint("sessions", "get", "GET /sessions/{id:path}", "retain sessions get trip --json"),
    Endpoint(
        "sessions",
        "edit",
        "PATCH /sessions/{id:path}",
        """retain sessions edit trip --label 'Lisbon' --attributes '{"pinned": true}'""",
    ),
    Endpoint("sessions", "remove", "DELETE /sessions/{id:path}", "retain sessions remove trip"),
    Endpoint(
        "messages",
        "append",
        "POST /messages/{session:path}",
        'retain messages append trip user "Where do we go?" --key turn-1',
    ),
    Endpoint(
        "messages",
        "extend",
        "POST /messages/{session:path}/batch",
        "retain messages extend trip turns.jsonl --key turn-2",
    ),
    Endpoint(
        "messages",
        "window",
        "GET /messages/{session:path}/window",
        "retain messages window trip --last 20 --turns-only",
    ),
    Endpoint(
        "messages",
        "list",
        "GET /messages/{session:path}",
        "retain messages list trip --limit 50 --json",
    ),
    Endpoint(
        "messages", "get", "GET /messages/{session:path}/{seq:int}", "retain messages get trip 1"
    ),
    Endpoint(
        "messages",
        "remove",
        "DELETE /messages/{session:path}/{seq:int}",
        "retain messages remove trip 1",
    ),
    Endpoint("messages", "pop", "POST /messages/{session:path}/pop", "retain messages pop trip"),
    Endpoint("messages", "clear", "DELETE /messages/{session:path}", "retain messages clear trip"),
    Endpoint("summaries", "get", "GET /summaries/{session:path}", "retain summaries get trip"),
    Endpoint(
        "summaries",
        "list",
        "GET /summaries/{session:path}/all",
        "retain summaries list trip --limit 5",
    ),
    Endpoint(
        "summaries",
        "fold",
        "POST /summaries/{session:path}/fold",
        "retain summaries fold trip --force",
    ),
    Endpoint(
        "summaries",
        "expand",
        "GET /summaries/{session:path}/messages",
        "retain summaries expand trip --limit 50",
    ),
    Endpoint(
        "notes",
        "read",
        "GET /notes",
        "retain notes read --user ada --agent scout > notes.md",
        itself=True,
    ),
    Endpoint(
        "notes",
        "overwrite",
        "PUT /notes",
        'retain notes overwrite "# Preferences" --user ada --agent scout',
    ),
    Endpoint(
        "notes",
        "append",
        "POST /notes/append",
        'retain notes append "- prefers tea" --user ada --agent scout',
    ),
    Endpoint(
        "notes",
        "prepend",
        "POST /notes/prepend",
        'retain notes prepend "Speak German." --user ada --agent scout',
    ),
    Endpoint(
        "notes",
        "replace_section",
        "PUT /notes/section",
        'retain notes replace-section Preferences "- coffee, now" --user ada --agent scout',
    ),
    Endpoint(
        "notes",
        "delete_section",
        "DELETE /notes/section",
        "retain notes delete-section '# Preferences' --user ada --agent scout",
    ),
    Endpoint("notes", "clear", "DELETE /notes", "retain notes clear --user ada --agent scout"),
    Endpoint(
        "notes",
        "history",
        "GET /notes/history",
        "retain notes history --user ada --agent scout --limit 10",
    ),
    Endpoint(
        "notes",
        "diff",
        "GET /notes/diff",
        "retain notes diff 4 --against 1 --user ada --agent scout",
    ),
    Endpoint(
        "notes", "restore", "POST /notes/restore", "retain notes restore 3 --user ada --agent scout"
    ),
    Endpoint(
        "notes",
        "changes",
        "GET /notes/changes",
        "retain notes changes --after 6 --wait 30 --user ada --agent scout --json",
    ),
    Endpoint(
        "entries",
        "add",
        "POST /entries",
        'retain entries add "Ada prefers trains to planes." --kind core --agent scout',
    ),
    Endpoint(
        "entries",
        "list",
        "GET /entries",
        "retain entries list --agent scout --search 'train lisbon'",
    ),
    Endpoint(
        "entries",
        "search",
        "GET /entries/search",
        "retain entries search 'what does Ada prefer' --agent scout",
    ),
    Endpoint("entries", "get", "GET /entries/{id}", "retain entries get 0199… --json"),
    Endpoint(
        "entries",
        "edit",
        "PATCH /entries/{id}",
        'retain entries edit 0199… "Ada prefers night trains." --if-version 1',
    ),
    Endpoint("entries", "queue", "GET /entries/queue", "retain entries queue"),
    Endpoint(
        "entries",
        "accept",
        "POST /entries/{id}/accept",
        "retain entries accept 0199… --if-version 2",
    ),
    Endpoint("entries", "refuse", "POST /entries/{id}/refuse", "retain entries refuse 0199…"),
    Endpoint("entries", "remove", "DELETE /entries/{id}", "retain entries remove 0199…"),
    Endpoint(
        "entries",
        "remove_many",
        "POST /entries/remove",
        "retain entries remove-many 0199…,0199… --agent scout",
    ),
    Endpoint("entries", "counts", "GET /entries/counts", "retain entries counts --agent scout"),
    Endpoint("entries", "prompt", "GET /entries/prompt", "retain entries prompt --agent scout"),
    Endpoint(
        "entries",
        "share",
        "PUT /entries/boards/{board:path}",
        "retain entries share trips scout,planner",
    ),
    Endpoint("entries", "boards", "GET /entries/boards", "retain entries boards"),
    Endpoint(
        "entries",
        "whiteboard",
        "GET /entries/whiteboard",
        "retain entries whiteboard --agent scout",
    ),
    Endpoint(
        "entries",
        "export",
        "GET /entries/export",
        "retain entries export --agent scout --json > scout.json",
    ),
    Endpoint(
        "entries",
        "add_many",
        "POST /entries/batch",
        "retain entries add-many scout.json --agent scout",
    ),
    Endpoint(
        "consolidations",
        "propose",
        "POST /consolidations",
        "retain consolidations propose --agent scout --days 5",
    ),
    Endpoint(
        "consolidations",
        "list",
        "GET /consolidations",
        "retain consolidations list --status proposed",
    ),
    Endpoint(
        "consolidations",
        "get",
        "GET /consolidations/{id}",
        "retain consolidations get 0199… --json",
    ),
    Endpoint(
        "consolidations",
        "accept",
        "POST /consolidations/{id}/accept",
        "retain consolidations accept 0199…",
    ),
    Endpoint(
        "consolidations",
        "refuse",
        "POST /consolidations/{id}/refuse",
        "retain consolidations refuse 0199…",
    ),
    Endpoint(
        "consolidations",
        "undo",
        "POST /consolidations/{id}/undo",
        "retain consolidations undo 0199…",
    ),
    Endpoint(
        "refs",
        "add",
        "POST /refs",
        'retain refs add "Ada flies to Lisbon on 3 May." "travel dates" --type user_preference --user ada',
    ),
    Endpoint(
        "refs",
        "capture",
        "POST /refs/capture",
        "npm install 2>&1 | retain refs capture - --source 'npm install' --session trip",
    ),
    Endpoint(
        "refs", "get", "GET /refs/{key:path}", "retain refs get npm-install-7f3a09c1 --grep 'ERR!'"
    ),
    Endpoint(
        "refs",
        "content",
        "GET /refs/{key:path}/content",
        "retain refs content npm-install-7f3a09c1 > install.log",
    ),
    Endpoint(
        "refs", "info", "GET /refs/{key:path}/info", "retain refs info npm-install-7f3a09c1 --json"
    ),
    Endpoint("refs", "list", "GET /refs", "retain refs list --session trip --active"),
    Endpoint(
        "refs", "search", "GET /refs/search", "retain refs search 'npm peer dependency' --limit 5"
    ),
    Endpoint(
        "refs",
        "edit",
        "PATCH /refs/{key:path}",
        "retain refs edit npm-install-7f3a09c1 --summary 'The install that failed' --no-is-active",
    ),
    Endpoint(
        "refs", "remove", "DELETE /refs/{key:path}", "retain refs remove npm-install-7f3a09c1"
    ),
    Endpoint(
        "state",
        "set",
        "PUT /state/{key:path}",
        """retain state set theme '{"dark": true}' --user ada --ttl 3600""",
    ),
    Endpoint(
        "state", "get", "GET /state/{key:path}", "retain state get theme --user ada", itself=True
    ),
    Endpoint("state", "list", "GET /state", "retain state list --prefix the --user ada"),
    Endpoint("state", "remove", "DELETE /state/{key:path}", "retain state remove theme --user ada"),
    Endpoint(
        "items",
        "put",
        "PUT /items/{key:path}",
        """retain items put memories,ada tea '{"text": "likes green tea"}' --ttl 86400 --user ada""",
    ),
    Endpoint(
        "items",
        "get",
        "GET /items/{key:path}",
        "retain items get memories,ada tea --user ada",
        itself=True,
    ),
    Endpoint(
        "items",
        "list",
        "GET /items",
        """retain items list memories --where '{"kind": "fact"}' --user ada""",
    ),
    Endpoint(
        "items",
        "search",
        "POST /items/search",
        "retain items search 'what does Ada drink' memories --user ada",
    ),
    Endpoint("items", "places", "GET /places", "retain items places memories --depth 2 --user ada"),
    Endpoint(
        "items",
        "remove",
        "DELETE /items/{key:path}",
        "retain items remove memories,ada tea --user ada",
    ),
    Endpoint(
        "knowledge",
        "add",
        "POST /knowledge",
        "retain knowledge add handbook.pdf docs/ --pattern '*.md'",
    ),
    Endpoint("knowledge", "list", "GET /knowledge", "retain knowledge list --prefix docs/"),
    Endpoint("knowledge", "get", "GET /knowledge/{id}", "retain knowledge get 0199… --json"),
    Endpoint("knowledge", "text", "GET /knowledge/{id}/text", "retain knowledge text 0199…"),
    Endpoint(
        "knowledge",
        "passages",
        "GET /knowledge/{id}/passages",
        "retain knowledge passages 0199… --seq 12 --around 1",
    ),
    Endpoint(
        "knowledge",
        "search",
        "GET /knowledge/search",
        "retain knowledge search 'how do I reset the router'",
    ),
    Endpoint("knowledge", "counts", "GET /knowledge/counts", "retain knowledge counts"),
    Endpoint("knowledge", "remove", "DELETE /knowledge/{id}", "retain knowledge remove 0199…"),
    Endpoint(
        "interactions",
        "add",
        "POST /interactions",
        "retain interactions add chat gpt-5-mini --latency-ms 812.5 --tokens-in 900 --tokens-out 40",
    ),
    Endpoint(
        "interactions", "list", "GET /interactions", "retain interactions list --model gpt-5-mini"
    ),
    Endpoint(
        "interactions",
        "totals",
        "GET /interactions/totals",
        "retain interactions totals day --split model",
    ),
    Endpoint("turns", "list", "GET /turns", "retain turns list trip --seq 4"),
    Endpoint("turns", "get", "GET /turns/{id}", "retain turns get 0199… --json"),
)

SCOPE_ENDPOINTS = (
    Endpoint("", "search", "POST /search", "retain search 'where does my sister live' --user ada"),
    Endpoint("", "context", "POST /context", 'retain context trip "What next?" --budget 4000'),
    Endpoint(
        "", "save_turn", "POST /turns", "retain messages extend trip turns.jsonl --key turn-2"
    ),
)
"""What a scope does itself, over all its kinds."""

PARAMETER_HELP = {
    ".key": "An idempotency key: a retry with the same key adds nothing.",
    ".messages": "The messages of the turn, in order.",
    ".session": "The session's id; a search without one looks in all.",
    "at": "When the question is asked, with a time zone; now where not given.",
    "budget": "The most tokens; the setting `context_tokens` where not given.",
    "context": "The report of the context that the model was given.",
    "kinds": "Some of messages, notes, entries, refs, state, items, knowledge and graph; all where not given.",
    "min_score": "Leave out hits with a lower score, from 0 to 1.",
    "message": "The new message.",
    "others": "The other agents of a group conversation.",
    "usage": "The model call: its model, tokens, cost and latency.",
    "active": "Only active references, or with --no-active only the others.",
    "after": "Go on after this cursor, from the end of the page before.",
    "against": "The version to compare with; the one before it where not given.",
    "agents": "The agents that share the board, with commas between them.",
    "area": "Whose state: `user`, `tenant` or `session:ID`.",
    "around": "So many before it and after it, too.",
    "attributes": "A JSON object of your own.",
    "author": "Who speaks, where several agents do.",
    "before": "Only messages before this number.",
    "board": "Which whiteboard; `main` where an entry does not say.",
    "by": "What to add up by.",
    "color": "A colour to show the agent in, like #1f6feb.",
    "consolidations.status": "Only those with this status.",
    "content": "The text, or `-` to read it from standard input.",
    "cost": "What it cost, in the currency you count in.",
    "created_at": "When it was said, with a time zone, for history from elsewhere.",
    "days": "Entries older than so many days.",
    "depth": "Only so many names of each place.",
    "description": "One line that says what it is; without one, it is written from the content.",
    "ending": "Only places that end with these names; `*` is any name.",
    "entries": "A file with one JSON entry a line or a list of them, or `-` for standard input.",
    "error": "What went wrong, if it did.",
    "exact": "Only what is at this place, nothing below it.",
    "expected_last_seq": "Append only if the session's last message has this number.",
    "expired": "Only entries that have faded, or only ones that have not.",
    "fields": "The paths of the value that a search finds, such as `text` and `tags[*]`: all of it where not given.",
    "force": "Do it now, whatever the settings say about when.",
    "grep": "The lines that match a regular expression, with their numbers.",
    "head": "The first so many lines.",
    "header": "The heading of a section: `Preferences`, or `## Preferences` where several are called alike.",
    "icon": "An icon to show the agent with: an emoji, or at most 8 characters.",
    "id": "The id.",
    "ids": "The ids, with commas between them.",
    "if_version": "Only if it is at this version; 0 means: only if it does not exist.",
    "is_active": "Whether it is listed in prompts.",
    "items.value": "The value: a JSON object.",
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
    "newest": "The newest first.",
    "notes.after": "Changes after this version.",
    "number": "Which of the summaries: 1 is the first fold.",
    "output": "The output, or `-` to read it from standard input.",
    "page": "A page, from 1.",
    "parameters": "A JSON object with the call's parameters.",
    "path": "A JSON path, such as $.items[0].name.",
    "place": "Where: the names of the place, from the outermost, with commas between them.",
    "prefix": "Only keys that start with this.",
    "prompt": "The agent's system prompt.",
    "query": "Words to look for.",
    "refresh": "Start its time to live again.",
    "refs.key": "The key, as it stands in the placeholder.",
    "refs.tokens": "The most tokens to show, 50 to 100000.",
    "review": "Only entries that are `pending`, `refused` or `accepted`.",
    "role": "Who speaks: system, user, assistant or tool.",
    "route": "Which part of your program made the call.",
    "search": "Only those in which all these words are.",
    "seq": "The message's number in its session.",
    "session": "The session's id.",
    "sessions.search": "Only those in whose label or id all these words are.",
    "since": "From this moment on, with a time zone.",
    "source": "The command that made it.",
    "spoken": "Only those in which something was said.",
    "status": "How the command ended.",
    "split": "Each of these apart, by what.",
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
    "turns.seq": "Only the turn of this message, by its number; of a user's message, the turns that answered it.",
    "type": "What it is, such as command_output, user_preference or file_content.",
    "under": "Only places that begin with these names; `*` is any name.",
    "until": "Before this moment, with a time zone.",
    "value": "The value, as JSON; text needs its quotes.",
    "version": "The number of a version.",
    "wait": "Wait up to so many seconds for a change.",
    "where": 'What fields must be, as JSON: {"kind": "fact"}, or {"n": {"$gt": 1}}.',
}
"""What each parameter of a verb means, wherever it is shown; with a kind before it, what it means there."""


def parameter_help(kind: str, parameter: str) -> str:
    """What a parameter of a kind's verbs means."""
    return PARAMETER_HELP.get(f"{kind}.{parameter}") or PARAMETER_HELP[parameter]
