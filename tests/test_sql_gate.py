"""A static check against SQL injection: statements are constants, and values are parameters."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from memorist.kinds import KINDS
from memorist.storage.tables import Table
from testkit.sql import BUILDERS, METHODS, Module, modules

UNSCOPED = {
    "admin/credentials.py": 1,
    "jobs/reindex.py": 1,
    "storage/postgres/engine.py": 1,
    "storage/server_database.py": 1,
    "storage/sqlite/engine.py": 3,
}
"""The calls of `tx.unscoped` in each module."""


def test_every_statement_is_a_constant_and_every_value_a_parameter() -> None:
    assert [problem for module in modules() for problem in module.problems()] == []


def test_what_a_kind_reads_for_the_index_is_a_statement_with_one_condition() -> None:
    findables = [kind.findable for kind in KINDS if kind.findable]
    assert len(findables) > 5
    for findable in findables:
        assert findable.select.startswith("select ")
        assert findable.select.count("{where}") == 1
        assert findable.select.count("{") == 1
        assert ":tenant" in findable.select
        assert all(re.fullmatch("[a-z_]+", column) for column in findable.key)


def test_the_check_finds_statements_and_exceptions() -> None:
    """Every kind has statements, and the excepted builders exist."""
    seen: dict[str, int] = {}
    built = set()
    for module in modules():
        seen[module.name] = sum(
            ast.unparse(call.func).startswith("tx.") for call in module.calls(METHODS)
        )
        for node in module.nodes:
            if module.built(node):
                built |= {module.name, f"{module.name} {module.outermost(node)}"} & BUILDERS
    assert sum(seen.values()) > 35
    for kind in KINDS:
        places = (f"kinds/{kind.name}.py", f"kinds/{kind.name}/")
        assert sum(count for name, count in seen.items() if name.startswith(places)) > 0
    assert built == BUILDERS


def test_every_statement_without_a_tenant_is_listed() -> None:
    """`tx.unscoped` is for catalogs and for the list of tenants."""
    calls: Counter[str] = Counter()
    for module in modules():
        for call in module.calls({"unscoped"}):
            calls[module.name] += ast.unparse(call.func) == "tx.unscoped"
    assert +calls == UNSCOPED


def test_no_statement_names_the_tenant_only_to_pass_the_check() -> None:
    dummy = re.compile(r":tenant (<>|!=) ''|:tenant = (:tenant|'\*'|'')|:tenant is not null")
    statements = [
        node.value
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert [statement for statement in statements if dummy.search(statement)] == []


@pytest.mark.parametrize(
    "line",
    [
        "tx.all(f'select * from t where tenant = :tenant and x = {x}')",
        "tx.all('select * from t where tenant = :tenant and x = ' + x)",
        "tx.run('delete from t where tenant = :tenant and x = %s' % x)",
        "tx.run('delete from t where tenant = :tenant and x = {}'.format(x))",
        "tx.each(x)",
        "tx.one(make(x))",
        "tx.many(' '.join(['select', x]), [])",
        "tx.lock_rows(_FINE + x)",
        "tx.all(_FINE if x else x)",
        "(sql := 'a', tx.all(x.sql))",
        "database.write(lambda tx: tx.run(x))",
        "database.write(lambda tx, sql=x: tx.run(sql))",
        "connection.execute('select 1')",
        "log(f'select {x} from t')",
    ],
)
def test_a_composed_statement_is_reported(line: str) -> None:
    """Each example is a pattern of a published CVE."""
    text = f"_FINE = 'select 1 from t where tenant = :tenant'\ndef verb(tx, x):\n    {line}\n"
    assert list(Module("kinds/new.py", text).problems())


@pytest.mark.parametrize(
    "lines",
    [
        "tx.all('select * from t where tenant = :tenant', x=x)",
        "tx.all(_FINE, x=x)",
        "tx.all(_MANY[x])",
        "tx.all(_FINE if x else _JOINED)",
        "a, b = (_FINE, _JOINED) if x else (_JOINED, _FINE); tx.one(a); tx.one(b)",
        "database.write(lambda tx: tx.run(_FINE))",
        "raise Error(f'there is no {x} to select from')",
    ],
)
def test_constant_statements_are_accepted(lines: str) -> None:
    text = (
        "_FINE = 'select 1 from t where tenant = :tenant'\n_JOINED = _FINE + ' and x = :x'\n"
        "_MANY = {None: _FINE, 1: _JOINED.replace('x', 'y')}\n"
        f"def verb(tx, x):\n    {lines}\n"
    )
    assert list(Module("kinds/new.py", text).problems()) == []


def test_the_statement_builder_accepts_only_identifiers() -> None:
    table = Table("notes", order="id")
    for wrong in ("a b", "a;", "a'", 'a"', "", "1", "a--", "A", "ä", "a.b", "tenant)"):
        with pytest.raises(ValueError, match="not the name of a column"):
            table.insert(["id", wrong])
    assert table.insert(["tenant", "id", "text"]) == (
        "insert into notes (tenant, id, text) values (:tenant, :id, :text) on conflict do nothing"
    )
