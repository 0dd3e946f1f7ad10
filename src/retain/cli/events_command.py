"""`retain events` and `retain webhooks`: read events, and manage who is told about them."""

from __future__ import annotations

import sys
import time

from retain.api.pages import all_records
from retain.api.rendering import as_json
from retain.auth.webhooks import Webhooks
from retain.base import limits
from retain.base.errors import Invalid
from retain.cli.command import Arguments, Command, audited, open_memory, tenant_of
from retain.cli.output import plain, show
from retain.memory import Memory
from retain.storage.outbox import Event

POLL_SECONDS = 0.5
EVENTS_PER_READ = 100
ID = {"id": {"metavar": "ID", "help": "the id of the webhook, from `retain webhooks list`"}}
KINDS = {
    "--kinds": {
        "metavar": "A,B",
        "help": "only events of these kinds, such as messages,facts (default: all)",
    }
}


def events(arguments: Arguments) -> int:
    """Print the stored events after a number, and with --follow the new ones as they happen."""
    after = arguments.after
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        if memory.settings.events == "off":
            print("Events are off. Set `events: on` to record them.", file=sys.stderr)
        try:
            while True:
                page = memory.events(after=after, limit=EVENTS_PER_READ, tenant=tenant)
                for event in page:
                    _print_event(event, arguments.json)
                    after = event.number
                if len(page) < EVENTS_PER_READ:
                    if not arguments.follow:
                        if after == arguments.after and not arguments.json:
                            show([], json_wanted=False)
                        return 0
                    time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            return 0


def _print_event(event: Event, json_wanted: bool) -> None:
    if json_wanted:
        show(event, json_wanted=True)
    else:
        user = f"  user {event.user}" if event.user is not None else ""
        line = f"{event.number}  {event.at:%Y-%m-%d %H:%M:%S}  {event.type:<7}  {event.kind} {event.subject}{user}"
        print(plain(line))
    sys.stdout.flush()


def add(arguments: Arguments) -> int:
    """Add a webhook; only its secret goes to standard output."""
    with open_memory(arguments, create=True) as memory:
        tenant = tenant_of(arguments, memory)
        webhooks = _webhooks(memory, tenant, "webhooks_add")
        webhook, secret = webhooks.add(tenant, arguments.url, _kinds(arguments.kinds) or [])
    if arguments.json:
        show({**as_json(webhook), "secret": secret}, json_wanted=True)
    else:
        print(secret)
        print(f"(webhook {webhook.id}; its secret is not shown again)", file=sys.stderr)
    if memory.settings.events == "off":
        print("Events are off. Set `events: on` for the server and its jobs.", file=sys.stderr)
    return 0


def list_(arguments: Arguments) -> int:
    """List the webhooks of a tenant."""
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        show(_webhooks(memory).list(tenant), json_wanted=arguments.json)
    return 0


def get(arguments: Arguments) -> int:
    """Show a webhook; with --dead-letters the events that it did not accept."""
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        webhooks = _webhooks(memory)
        if arguments.dead_letters:
            letters = all_records(
                lambda after: webhooks.dead_letters(
                    tenant, arguments.id, limit=limits.MAX_PAGE, after=after
                )
            )
            show(list(letters), json_wanted=arguments.json)
        else:
            show(webhooks.get(tenant, arguments.id), json_wanted=arguments.json)
    return 0


def edit(arguments: Arguments) -> int:
    """Change a webhook."""
    if arguments.pause and arguments.resume:
        raise Invalid(field="--pause", problem="cannot be combined with --resume")
    paused = True if arguments.pause else False if arguments.resume else None
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        webhook = _webhooks(memory, tenant, "webhooks_edit").edit(
            tenant, arguments.id, url=arguments.url, kinds=_kinds(arguments.kinds), paused=paused
        )
    show(webhook, json_wanted=arguments.json)
    return 0


def remove(arguments: Arguments) -> int:
    """Remove a webhook."""
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        _webhooks(memory, tenant, "webhooks_remove").remove(tenant, arguments.id)
    show(None, json_wanted=arguments.json)
    return 0


def test(arguments: Arguments) -> int:
    """Send a test event; the exit status says if it was accepted."""
    with open_memory(arguments) as memory:
        result = _webhooks(memory).test(tenant_of(arguments, memory), arguments.id)
    show(result, json_wanted=arguments.json)
    return 0 if result.delivered else 1


def replay(arguments: Arguments) -> int:
    """Mark the dead letters of a webhook to be sent again, and print their number."""
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        count = _webhooks(memory, tenant, "webhooks_replay").replay(tenant, arguments.id)
    show({"events": count}, json_wanted=arguments.json)
    return 0


def _webhooks(memory: Memory, tenant: str = "", action: str = "") -> Webhooks:
    """Return the webhooks; with an action, their next change is audited."""
    services = audited(memory, tenant, action).services if action else memory.services
    return Webhooks(
        services.database, services.writer, allow_private=services.settings.events == "private"
    )


def _kinds(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [word.strip() for word in text.split(",") if word.strip()]


COMMANDS = (
    Command(
        "events",
        events,
        "retain events --follow --json",
        ("tenant",),
        {
            "--after": {
                "type": int,
                "metavar": "N",
                "default": 0,
                "help": "only events after this number (default: from the oldest on)",
            },
            "--follow": {"action": "store_true", "help": "wait for new events"},
        },
    ),
    Command(
        "webhooks add",
        add,
        "retain webhooks add https://example.org/hooks --kinds facts > secret",
        ("tenant",),
        {"url": {"metavar": "URL", "help": "the address that receives the events"}, **KINDS},
    ),
    Command("webhooks list", list_, "retain webhooks list --tenant acme", ("tenant",)),
    Command(
        "webhooks get",
        get,
        "retain webhooks get 3f0c… --dead-letters",
        ("tenant",),
        {
            **ID,
            "--dead-letters": {
                "action": "store_true",
                "help": "list the events that it did not accept, oldest first",
            },
        },
    ),
    Command(
        "webhooks edit",
        edit,
        "retain webhooks edit 3f0c… --pause",
        ("tenant",),
        {
            **ID,
            "--url": {"metavar": "URL", "help": "the new address"},
            **KINDS,
            "--pause": {"action": "store_true", "help": "send no events for now"},
            "--resume": {"action": "store_true", "help": "send events again"},
        },
    ),
    Command("webhooks remove", remove, "retain webhooks remove 3f0c…", ("tenant",), ID),
    Command("webhooks test", test, "retain webhooks test 3f0c…", ("tenant",), ID),
    Command("webhooks replay", replay, "retain webhooks replay 3f0c…", ("tenant",), ID),
)
