"""Bugs of other memory systems, each with the test that proves its absence here."""

from __future__ import annotations

import ast
import io
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base.errors import OutOfOrder, WrongVersion
from testkit.databases import SETTINGS
from testkit.failures import raised
from testkit.memories import scope_of
from testkit.rows import raw

HERE = Path(__file__).parent
PROVED: dict[str, dict[str, str]] = {
    "B1 deleting one user dropped everybody": {
        "test_every_kind.py": "test_erasing_a_user_leaves_other_users_unchanged",
    },
    "B2 an item was dropped and the call said success": {
        "kinds/test_messages.py": "test_extend_is_all_or_nothing",
        "jobs/test_embed.py": "test_an_embedder_that_fails_for_a_third_loses_nothing",
    },
    "B3 two identical adds at once stayed two": {
        "kinds/test_messages.py": "test_64_concurrent_identical_appends_are_one_message"
    },
    "B4 a model's made-up id deleted or changed another memory": {
        "kinds/test_consolidations.py": "test_an_invalid_answer_changes_nothing"
    },
    "B5 a rewrite erased what was added while the model was thinking": {
        "kinds/test_summaries.py": "test_messages_appended_during_a_fold_are_not_covered",
        "chaos/test_folding.py": "test_processes_never_fold_the_same_turns_twice",
    },
    "B6 processes on one file overwrote each other": {
        "chaos/test_crowd.py": "test_8_processes_on_one_file_lose_no_write"
    },
    "B7 acknowledged writes were gone though the file was intact": {"chaos/test_history.py": ""},
    "B9 a row landed in another tenant": {
        "test_isolation.py": "test_sixteen_tenants_write_concurrently"
    },
    "B10 a locked database was taken for a damaged one and deleted": {
        "chaos/test_locks.py": "test_writers_wait_for_a_lock_of_another_process",
    },
    "B11 after a restart the summary was gone and its messages were still marked": {
        "kinds/test_summaries.py": "test_a_summary_survives_a_restart"
    },
    "B12 a call whose result was never stored made the session unusable": {
        "context/test_window.py": "test_a_call_without_a_result_gets_one"
    },
    "B13 items of one millisecond came back in any order": {
        "kinds/test_messages.py": "test_1000_appends_with_a_frozen_clock_keep_their_order"
    },
    "B14 order by time, or by nothing": {
        "kinds/test_messages.py": "test_order_survives_a_clock_going_backwards"
    },
    "B15 the last N were the first N": {"kinds/test_messages.py": "test_windows_are_suffixes"},
    "B16 versions were times, in several time zones": {
        "test_peer_bugs.py": "test_time_zones_change_nothing",
        "base/test_clock.py": "",
    },
    "B17 a stale writer was reloaded in silence": {
        "test_rules_of_verbs.py": "test_of_writers_that_expect_one_version_one_wins"
    },
    "B18 the whole history was read under the lock": {
        "kinds/test_messages.py": "test_append_reads_no_history"
    },
    "B19 processes that start at once missed tables": {
        "chaos/test_start.py": "test_processes_start_at_once_on_an_empty_database"
    },
    "B20 a migration waited for those who waited for it": {
        "chaos/test_start.py": "test_a_migration_with_an_open_transaction_and_16_waiters_neither_hangs_nor_fails"
    },
    "B21 expiry compared days in mixed time zones": {
        "kinds/test_state.py": "test_a_key_expires_at_the_exact_microsecond"
    },
    "B22 what had expired took the places of what had not": {
        "test_peer_bugs.py": "test_pages_are_full_if_most_keys_have_expired",
        "search/test_find.py": "test_expired_objects_take_no_place",
    },
    "B23 a NUL byte stopped a batch": {
        "base/test_canonical.py": "test_text_is_stored_except_nul_and_lone_surrogates"
    },
    "B24 an escaped NUL was un-escaped": {
        "base/test_canonical.py": "test_text_is_stored_except_nul_and_lone_surrogates"
    },
    "B25 half an emoji made a session unreadable": {
        "base/test_canonical.py": "test_text_cut_at_every_offset_is_valid",
        "base/test_tokens.py": "test_no_grapheme_is_split_at_any_offset",
    },
    "B27 an operator in a question was an error of the index": {
        "search/test_find.py": "test_fuzzed_queries_are_valid"
    },
    "B28 one huge tool result made summarising impossible for ever": {
        "kinds/test_summaries.py": "test_a_huge_tool_result_does_not_stop_folding",
        "context/test_assemble.py": "test_a_huge_message_is_shortened",
    },
    "B29 a summary parted a tool call from its result": {
        "kinds/test_summaries.py": "test_the_cut_never_separates_a_call_and_its_result",
        "content/test_pairing.py": "test_a_safe_cut_separates_no_pair",
        "test_long_conversation.py": "test_tool_calls_and_results_are_never_separated",
    },
    "B30 bytes grew with the square of the messages": {
        "storage/test_sqlite.py": "test_bytes_per_message_stay_constant"
    },
    "B31 a reader let the log grow to gigabytes": {
        "chaos/test_locks.py": "test_a_long_reader_cannot_make_the_log_grow_without_bound"
    },
    "B32 cancelled requests left transactions open": {
        "storage/test_postgres.py": "test_no_transaction_is_left_open_by_cancelled_callers"
    },
    "B33 prepared statements behind a pooler": {
        "test_pgbouncer.py": "test_a_pooler_is_detected_and_prepared_statements_are_off"
    },
    "B35 an upgrade lost or hid memories": {
        "storage/test_stored_database.py": "test_a_stored_database_is_upgraded",
        "storage/test_migrate.py": "test_up_and_down_from_every_version_changes_no_row",
    },
    "B36 the vectors lagged behind the rows, or had another model's dimension, and nobody was told": {
        "jobs/test_embed.py": "test_another_embedder_embeds_again_while_search_works",
        "search/test_embed.py": "test_invalid_vectors_are_rejected",
    },
    "B37 an export lost expiry and times": {
        "test_every_kind.py": "test_an_export_round_trips_byte_for_byte",
    },
    "B38 a file on a network drive, or under two names, was damaged": {
        "storage/test_sqlite.py": "test_a_file_on_a_network_drive_is_rejected"
    },
}


def test_every_known_bug_is_in_the_table() -> None:
    ground = [*range(1, 8), *range(9, 26), *range(27, 34), *range(35, 39)]
    assert [bug.split(maxsplit=1)[0] for bug in PROVED] == [f"B{number}" for number in ground]


@pytest.mark.parametrize(
    ("bug", "file", "test"),
    [(bug, file, test) for bug, tests in PROVED.items() for file, test in tests.items()],
)
def test_every_named_test_exists(bug: str, file: str, test: str) -> None:
    """Without a name, the whole file is the proof: it must say so and have tests."""
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    results = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if test:
        assert test in results
    else:
        assert results
        assert bug.split(maxsplit=1)[0] in (ast.get_docstring(tree) or "")


# -- B16 -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def set_time_zone() -> Iterator[Callable[[str], None]]:
    """Return a function that sets the time zone of this process."""
    before = os.environ.get("TZ")

    def set_(name: str) -> None:
        os.environ["TZ"] = name
        time.tzset()

    yield set_
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


def time_zones(url: str, engine: str, set_time_zone: Callable[[str], None]) -> Iterator[str]:
    """Yield each time zone, with another one for the server."""
    for mine, servers in (
        ("UTC", "UTC"),
        ("Asia/Kolkata", "America/St_Johns"),
        ("America/St_Johns", "Pacific/Apia"),
    ):
        set_time_zone(mine)
        if engine != "sqlite":
            with raw(url) as database:
                ((name,),) = database.all("select current_database()")
                database.all(f"alter database {name} set timezone = '{servers}'")
        yield mine


def test_time_zones_change_nothing(
    url: str, engine: str, set_time_zone: Callable[[str], None]
) -> None:
    """The same work stores the same bytes in every time zone."""
    moment = datetime(2026, 3, 29, 0, 59, 59, 999_999, UTC)
    exports = set()
    for name in time_zones(url, engine, set_time_zone):
        with Memory.open(url, settings=SETTINGS, clock=lambda: 1_774_745_999_999_999) as memory:
            me = scope_of(memory, "ada", "scout")
            me.sessions.add("s")
            for hours in (-11, 0, 5.5, 14):
                me.messages.append(
                    "s", "user", "x", created_at=moment.astimezone(timezone(timedelta(hours=hours)))
                )
            me.state.set("k", 1, ttl=86_400)
            assert me.state.set("k", 2, ttl=86_400, if_version=1).version == 2
            raised(WrongVersion, me.state.set, "k", 3, if_version=1)
            raised(OutOfOrder, me.messages.append, "s", "user", "x", expected_last_seq=3)
            messages = me.messages.window("s")
            assert {message.created_at for message in messages} == {moment}
            assert {message.created_at.utcoffset() for message in messages} == {timedelta(0)}
            expires = me.state.get("k").expires_at
            assert expires == me.sessions.get("s").created_at + timedelta(days=1), name
            out = io.BytesIO()
            memory.export(out)
            exports.add(out.getvalue())
            memory.scope(tenant="acme").admin.users.erase("ada")
    assert len(exports) == 1


# -- B22 -----------------------------------------------------------------------------------------------------------


def test_pages_are_full_if_most_keys_have_expired(open_memory: Callable[..., Memory]) -> None:
    """99 of 100 keys have expired; every page still has ten live keys."""
    now = [1_000_000_000_000]
    memory = open_memory(clock=lambda: now[0])
    sql = """insert into state (tenant, area, key, user_id, value, version, expires_at, created_at, updated_at,
                                checksum)
             values (:tenant, 'user:ada', :key, 'ada', '1', 1, :expires, :now, :now, 0)"""
    rows = [
        {"key": f"k{n:05}", "expires": None if n % 100 == 7 else now[0] + 1} for n in range(3000)
    ]
    memory.database.write("acme", lambda tx: tx.many(sql, rows))
    now[0] += 1
    me = scope_of(memory, "ada", "scout")
    pages = []
    after = None
    while True:
        page = me.state.list(limit=10, after=after)
        pages.append([item.key for item in page])
        after = page.next
        if after is None:
            break
    assert [len(page) for page in pages] == [10, 10, 10]
    assert sum(pages, []) == [f"k{n:05}" for n in range(7, 3000, 100)]
