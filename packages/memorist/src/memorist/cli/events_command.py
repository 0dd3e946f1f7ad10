"""`memorist events`: print events, and with --follow wait for more, which no verb does."""

from __future__ import annotations

import sys
import time

from memorist.cli.command import Arguments, Command, open_memory, tenant_of
from memorist.cli.output import plain, show
from memorist.storage.event_log import Event

POLL_SECONDS = 0.5
EVENTS_PER_READ = 100


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


COMMANDS = (
    Command(
        "events",
        events,
        "memorist events --follow --json",
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
)
