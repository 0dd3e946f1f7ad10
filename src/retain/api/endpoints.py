"""The endpoint table: which verbs can be called from outside, and what their parameters mean.

HTTP routes, the OpenAPI document, MCP tools, CLI commands and client methods are made from this
table and the typed signatures of the verbs. To expose a new verb, add one line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from retain.auth.principal import Permission

FOR_PEOPLE = frozenset(
    {
        "entries_accept",
        "entries_refuse",
        "entries_queue",
        "facts_confirm",
        "facts_history",
        "facts_merge",
        "facts_review",
        "facts_separate",
        "facts_timeline",
        "facts_undo",
    }
)
"""Endpoints for people only. Agents use MCP, which has no such tools and hides pending records."""
_REMOVING_VERBS = ("remove", "remove_many", "pop", "clear", "delete_section")
_READING_VERBS = ("search", "context")
_CREATING_VERBS = ("add", "append", "extend", "capture", "add_many", "save_turn")


@dataclass(frozen=True)
class Endpoint:
    """One verb, the HTTP request that calls it, and an example command."""

    kind: str
    """The kind of memory; empty for verbs of the scope itself."""
    verb: str
    request: str
    """The HTTP method and the path below `/api`. Other parameters are in the query or the body."""
    example: str
    """A command that calls the verb; empty if there is none."""
    raw_output: bool = False
    """True if the command prints only the value itself, ready to be piped into a file."""

    @cached_property
    def method(self) -> str:
        """The HTTP method."""
        return self.request.partition(" ")[0]

    @cached_property
    def route(self) -> str:
        """The path of the HTTP route."""
        return "/api" + self.request.partition(" ")[2]

    @cached_property
    def in_query(self) -> bool:
        """True if the parameters are in the query; otherwise they are in the body."""
        return self.method in ("GET", "DELETE")

    @cached_property
    def needs(self) -> Permission:
        """The permission that a key must have."""
        if self.verb in _REMOVING_VERBS or self.method == "DELETE":
            return "delete"
        return "read" if self.method == "GET" or self.verb in _READING_VERBS else "write"

    @cached_property
    def creates(self) -> bool:
        """True if the verb creates a record."""
        return self.verb in _CREATING_VERBS

    @cached_property
    def returns_removed(self) -> bool:
        """True if the response contains the removed record; the key must then allow reading."""
        return self.verb == "pop"

    @cached_property
    def name(self) -> str:
        """The operation id, such as `messages_append`."""
        return f"{self.kind}_{self.verb}".removeprefix("_")

    @cached_property
    def operation(self) -> str:
        """Its name in metrics and traces."""
        return f"{self.kind}.{self.verb}".removeprefix(".")

    @cached_property
    def word(self) -> str:
        """The verb as the command line spells it."""
        return self.verb.replace("_", "-")

    @cached_property
    def command(self) -> str:
        """The command, such as `messages append`."""
        return f"{self.kind} {self.word}"


ENDPOINTS = (
    Endpoint(
        "agents",
        "add",
        "POST /agents",
        'retain agents add scout --prompt "You scout ahead." --tools search_memory,save_to_core',
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
        raw_output=True,
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
        "facts",
        "add",
        "POST /facts",
        'retain facts add "Clara lives in Lisbon." --subject Clara --topic people --user ada',
    ),
    Endpoint("facts", "list", "GET /facts", "retain facts list --about Clara --user ada"),
    Endpoint("facts", "search", "GET /facts/search", 'retain facts search "where is Clara"'),
    Endpoint("facts", "profile", "GET /facts/profile", "retain facts profile --user ada"),
    Endpoint("facts", "review", "GET /facts/review", "retain facts review --user ada"),
    Endpoint("facts", "timeline", "GET /facts/timeline", "retain facts timeline --user ada"),
    Endpoint("facts", "entities", "GET /facts/entities", "retain facts entities --user ada"),
    Endpoint(
        "facts",
        "merge",
        "POST /facts/merge",
        'retain facts merge Clara "the user\'s sister" --user ada',
    ),
    Endpoint(
        "facts",
        "separate",
        "POST /facts/separate",
        'retain facts separate Clara "the user\'s sister" --user ada',
    ),
    Endpoint("facts", "get", "GET /facts/{id}", "retain facts get 0199… --json"),
    Endpoint("facts", "history", "GET /facts/{id}/history", "retain facts history 0199…"),
    Endpoint(
        "facts",
        "correct",
        "POST /facts/{id}/correct",
        'retain facts correct 0199… "Clara lives in Porto." --since 2026-05-01T00:00:00Z',
    ),
    Endpoint("facts", "retract", "POST /facts/{id}/retract", "retain facts retract 0199…"),
    Endpoint("facts", "confirm", "POST /facts/{id}/confirm", "retain facts confirm 0199…"),
    Endpoint("facts", "undo", "POST /facts/{id}/undo", "retain facts undo 0199…"),
    Endpoint("facts", "forget", "DELETE /facts/{id}", "retain facts forget 0199…"),
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
        "state",
        "get",
        "GET /state/{key:path}",
        "retain state get theme --user ada",
        raw_output=True,
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
        raw_output=True,
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
    Endpoint(
        "",
        "context",
        "POST /context",
        'retain context --session trip --message "What next?" --budget 4000',
    ),
    Endpoint("", "save_turn", "POST /turns", ""),
)
"""Verbs of a scope itself, over all kinds of memory."""

KIND_HELP = {
    "agents": "The configured agents of a tenant. Memory works for any agent name, configured or not.",
    "sessions": "The sessions of a user, or of the tenant if no user is named.",
    "messages": "The messages of a session: append-only, numbered from 1 without gaps.",
    "summaries": "The rolling summaries of sessions.",
    "notes": "The notes that an agent keeps about a user.",
    "facts": "The facts about a user, and about the people and things the user talks about.",
    "entries": "The journal and core entries of an agent, and the whiteboards that it shares.",
    "consolidations": "Proposals to keep the agent's journal entries, as core entries or documents.",
    "refs": "The references of a user, and those without a user.",
    "state": "Key-value state of a user, a session or the tenant.",
    "items": "The items of a user, or of the tenant if no user is named.",
    "knowledge": "The documents of a user, and those of the whole tenant.",
    "graph": "The graph of a user, or of the tenant if no user is named.",
    "interactions": "The model calls made for a user and an agent, or for the whole tenant.",
    "turns": "The saved turns of sessions: why each answer was given.",
    "checkpoints": "The checkpoints of a user's threads, or of the tenant's if no user is named.",
}
"""One sentence about each kind, for the command line and the OpenAPI document.

It is here so that `retain --help` does not import the kinds."""

PARAMETER_HELP = {
    ".key": "Idempotency key. A retry with the same key adds nothing.",
    ".messages": "The messages of the turn, in order.",
    ".session": "The session id. Without it, search covers all sessions.",
    "about": "Only facts about this subject; `user` for the user.",
    "active": "Only active references; with --no-active, only inactive ones.",
    "after": "Cursor of the previous page. Returns the records that follow it.",
    "against": "The version to compare with. Default: the version before it.",
    "agents": "The agents that share the board, separated by commas.",
    "agents.active": "Answer in chats. An inactive agent (--no-active) does not answer.",
    "area": "Where the value belongs: `user`, `tenant` or `session:ID`.",
    "around": "Also return this many passages before and after it.",
    "at": "The time at which the question is asked, with a time zone. Default: now.",
    "attributes": "A JSON object with your own data.",
    "author": "Name of the speaker, if several agents take part.",
    "before": "Only messages with a smaller number.",
    "board": "Name of the whiteboard. Default: `main`.",
    "budget": "Maximum number of tokens. Default: the setting `context_tokens`, which may depend on the model.",
    "by": "What to group by: `hour`, `day`, `model`, `route` or `agent`.",
    "color": "Colour in which the agent is shown, such as #1f6feb.",
    "confidence": "How certain the fact is, from 0 to 1.",
    "consolidations.id": "Id of the proposal.",
    "consolidations.status": "Only consolidations with this status.",
    "content": "The text, or `-` to read it from standard input.",
    "context": "The report of the context that the model received.",
    "cost": "Cost of the call in US dollars.",
    "created_at": "When the message was written, with a time zone. For imported history.",
    "days": "Only entries older than this many days.",
    "depth": "Return only this many levels of each place.",
    "description": "A one-line description. Without it, one is generated from the content.",
    "ending": "Only places that end with these names; `*` matches any name.",
    "entries.id": "Id of the entry.",
    "entries": "A file with one JSON entry per line or a JSON list, or `-` for standard input.",
    "error": "The error, if the call failed.",
    "evidence": "The messages that say so, each as SESSION#NUMBER, separated by commas.",
    "exact": "Only items at exactly this place, not below it.",
    "expected_last_seq": "Append only if the session's last message has this number.",
    "expired": "Only expired entries, or only entries that have not expired.",
    "facts.id": "Id of the fact.",
    "facts.at": "Return what was true at this time, with a time zone.",
    "facts.name": "A name of the person or thing.",
    "other": "Another name of the same person or thing.",
    "facts.since": "When it changed, with a time zone. Without it, the old fact was never true.",
    "facts.status": "Only facts with this status; `pending` facts wait for a person.",
    "fields": "Paths of the value to index for search, such as `text` or `tags[*]`. Default: all.",
    "force": "Do it now, even if the settings do not require it yet.",
    "grep": "Only lines that match this regular expression, with line numbers.",
    "head": "Only the first N lines.",
    "header": "Heading of the section: `Preferences`, or `## Preferences` if it is not unique.",
    "icon": "Icon of the agent: an emoji, or at most 8 characters.",
    "id": "Id of the record.",
    "ids": "The ids of the entries, separated by commas.",
    "if_version": "Change it only if this is its current version; 0 means it must not exist yet.",
    "include_replaced": "Also facts that were replaced or retracted, or have ended.",
    "into": "What it becomes: `core` (an entry of the agent) or `knowledge` (a document).",
    "is_active": "Whether the reference is listed in prompts.",
    "items.key": "Key of the item at its place.",
    "items.value": "The value: a JSON object.",
    "key": "Key of the record.",
    "kind": "Kind of entry: `journal`, `core` or `whiteboard`.",
    "kinds": "Kinds to search: messages, facts, notes, entries, refs, state, items, knowledge, graph. "
    "Default: all.",
    "knowledge.id": "Id of the document.",
    "knowledge.path": "Where the document comes from. Adding the same path again replaces it.",
    "knowledge.prefix": "Only documents whose path starts with this.",
    "knowledge.seq": "Number of one passage, as returned by a search.",
    "label": "A name to show to people.",
    "last": "At most this many of the newest messages.",
    "latency_ms": "Duration of the call in milliseconds.",
    "limit": "Maximum number of records to return.",
    "lines": "First and last line to show, such as 1-40.",
    "media": "Format: text, markdown, html or pdf. Default: detected from the content.",
    "message": "The new message.",
    "messages": "A file with one JSON message per line, or `-` for standard input.",
    "messages.key": "Idempotency key. A retry with the same key adds nothing.",
    "metadata": "A JSON object with your own data, such as origin or duration.",
    "min_score": "Leave out hits with a lower score, from 0 to 1.",
    "minutes": "Only messages of the last N minutes.",
    "model": "Name of the model.",
    "model_label": "Display name of the model.",
    "name": "Name of the agent.",
    "newest": "Return the newest first.",
    "notes.after": "Only changes after this version.",
    "number": "Number of the summary; 1 is the first.",
    "object": "The object of the fact, such as Lisbon.",
    "others": "The other agents of a group conversation.",
    "output": "The output, or `-` to read it from standard input.",
    "page": "Page number, starting at 1.",
    "parameters": "A JSON object with the parameters of the call.",
    "path": "A JSON path, such as $.items[0].name.",
    "place": "The place: its names from the outermost, separated by commas.",
    "predicate": "The relation between subject and object, such as `lives in`.",
    "prefix": "Only keys that start with this.",
    "prompt": "System prompt of the agent.",
    "query": "Words to search for.",
    "refresh": "Restart the time to live.",
    "refs.key": "The key, as shown in the placeholder.",
    "refs.tokens": "Maximum number of tokens to show, 50 to 100000.",
    "review": "Only entries with this review status: `pending`, `refused` or `accepted`.",
    "role": "Who speaks: system, user, assistant or tool.",
    "route": "The part of your program that made the call.",
    "search": "Only records that contain all these words.",
    "seq": "Number of the message in its session.",
    "session": "The session id.",
    "sessions.id": "Id of the session.",
    "sessions.search": "Only sessions whose label or id contains all these words.",
    "since": "Start of the period (inclusive), with a time zone.",
    "source": "The command that produced it.",
    "split": "Return separate totals for each value of these fields.",
    "spoken": "Only sessions that have messages.",
    "state.key": "Key of the value.",
    "statement": "The fact as one sentence.",
    "status": "Exit status of the command.",
    "stored_id": "The session id that the client has stored, if any.",
    "subject": "The person or thing that the fact is about. Default: `user`.",
    "summary": "A one-line summary.",
    "tail": "Only the last N lines.",
    "text": "The text, or `-` to read it from standard input.",
    "title": "The title.",
    "tokens": "As many of the newest messages as fit into N tokens.",
    "tokens_in": "Tokens that the model read.",
    "tokens_out": "Tokens that the model wrote.",
    "tools": "The tools that the agent may use, separated by commas.",
    "topic": "The topic under which the profile lists the fact.",
    "ttl": "Time to live: expire after this many seconds.",
    "turns.id": "Id of the turn.",
    "turns.seq": "Only the turn of the message with this number; for a user message, the turns "
    "that answered it.",
    "turns_only": "Only user messages and final answers.",
    "type": "Type of content, such as command_output, user_preference or file_content.",
    "under": "Only places that begin with these names; `*` matches any name.",
    "until": "End of the period (exclusive), with a time zone.",
    "usage": "The model call: its model, tokens, cost and latency.",
    "valid_from": "The time from which the fact is true.",
    "valid_to": "The time until which the fact is true.",
    "value": "The value as JSON; a string needs double quotes.",
    "version": "Number of the version.",
    "wait": "Wait up to this many seconds for a change.",
    "where": 'Conditions on fields, as JSON: {"kind": "fact"} or {"n": {"$gt": 1}}.',
}
"""Help for each parameter of the verbs; an entry `kind.parameter` overrides the general one."""


def parameter_help(kind: str, parameter: str) -> str:
    """Return the help for a parameter of a kind's verbs."""
    return PARAMETER_HELP.get(f"{kind}.{parameter}") or PARAMETER_HELP[parameter]
