"""The migrations as a Liquibase changelog in formatted SQL, for teams that deploy schemas by it.

Each migration is a changeset with its rollback; the id is its number. A changeset also records the
version, so that memorist finds the schema as if it had migrated by itself. With a working user, two
more changesets have its grants and the policies, and run again when they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memorist.storage.database import Step
from memorist_oracle import security
from memorist_oracle.dialect import migration_statements, schema
from memorist_oracle.engine import CREATE_SCHEMA_TABLES, LOCK_BUCKETS, MIGRATION_BUCKET
from memorist_oracle.migrations import shipped

HEAD = "--liquibase formatted sql"
END = "/"
"""Ends a statement, on a line of its own; semicolons are also part of PL/SQL."""
ATTRIBUTES = f"dbms:oracle endDelimiter:{END} rollbackEndDelimiter:{END} stripComments:false"
ANY_CHECKSUM = "--validCheckSum: ANY"
"""A later version may write the same statement in other words."""
_SIXTEEN = " union all ".join(f'select {number} "n" from dual' for number in range(16))
ADD_LOCKS = (
    'insert into "memorist_locks" ("bucket") select high."n" * 16 + low."n" '
    f'from ({_SIXTEEN}) high cross join ({_SIXTEEN}) low where high."n" * 16 + low."n" < {LOCK_BUCKETS} '
    f"union all select {MIGRATION_BUCKET} from dual"
)
RECORD = """insert into "memorist_schema" ("version", "name", "applied_at")
select {number}, '{name}', 1000000 * (cast(extract(day from "age") as number(19)) * 86400
    + extract(hour from "age") * 3600 + extract(minute from "age") * 60 + trunc(extract(second from "age")))
from (select cast(systimestamp at time zone 'UTC' as timestamp) - timestamp '1970-01-01 00:00:00' "age" from dual)"""
REVERT = 'delete from "memorist_schema" where "version" = {number}'
SEE_ALL_ROWS = f"""begin
    execute immediate '{security.MIGRATE}';
exception
    when others then
        if sqlcode <> -6550 then raise; end if;
end;"""
"""Lets the owner change rows of all tenants; before the policies exist, it does nothing."""


def changelog(owner: str, worker: str) -> str:
    """Return the changelog; `worker` is the working user, or the owner if there is no other."""
    is_protected = security.identifier(owner) != security.identifier(worker)
    changesets = []
    for migration in shipped():
        up = _statements(migration.step(up=True), is_protected)
        down = _statements(migration.step(up=False), is_protected)
        heads = [ANY_CHECKSUM, f"--comment {migration.name}"]
        changesets.append(_changeset(f"{migration.number:04}", heads, up, down))
    if is_protected:
        grants = security.grants(list(schema().keys), worker)
        policies = security.policies(owner, worker)
        changesets += [
            _changeset("grants runOnChange:true", ["--rollback empty"], grants),
            _changeset(
                "policies runOnChange:true failOnError:false", ["--rollback empty"], policies
            ),
        ]
    return "\n".join([f"{HEAD}\n", *changesets])


def _statements(step: Step, is_protected: bool) -> Iterator[str]:
    """Yield what Liquibase runs for one migration, in one direction."""
    if is_protected:
        yield SEE_ALL_ROWS
    if step.number == 1 and step.up:
        yield from CREATE_SCHEMA_TABLES
        yield ADD_LOCKS
    yield from migration_statements(step.script)
    if step.up:
        yield RECORD.format(number=step.number, name=step.name)
    elif step.number > 1:
        yield REVERT.format(number=step.number)
    else:
        yield from ('drop table "memorist_locks"', 'drop table "memorist_schema"')


def _changeset(id: str, heads: list[str], up: Iterable[str], down: Iterable[str] = ()) -> str:
    lines = [f"--changeset memorist:{id} {ATTRIBUTES}", *heads]
    for statement in up:
        lines += [statement, END]
    for statement in down:
        lines += [f"--rollback {line}" for line in [*statement.splitlines(), END]]
    return "\n".join([*lines, ""])
