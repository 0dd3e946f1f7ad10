"""The statements and migrations of memorist in Oracle's SQL, translated by sqlglot.

Statements are written once, in the subset that SQLite and PostgreSQL share. Where Oracle differs:

- Oracle stores an empty text as null. Here an empty text is the character 0, which no text contains
  (docs/reference/input.md). The engine removes that character from what it reads.
- Names are quoted, because `number`, `start`, `file` and `audit` are reserved words. Parameters have
  a prefix for the same reason.
- `insert … values … on conflict … do update` becomes an update and an insert, which the engine runs
  in this order: `merge` has no `returning`, and takes no large texts as parameters.
- Conditions are no values, `limit` is `fetch first`, a `select` needs a table, `/` is no integer
  division, and rows cannot be compared by `<`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlglot import exp, parse, parse_one
from sqlglot.errors import SqlglotError

from memorist.base.errors import StorageError
from memorist.storage.database import require_tenant
from memorist_oracle.migrations import shipped

Node = Any
"""An expression of sqlglot, whose own types do not know which arguments each kind has."""
EMPTY = "\0"
"""Placeholder stored for empty text."""
PREFIX = "p_"
"""Begins the name of every parameter: `:user`, `:number` or `:size` would be reserved words."""
OUTPUT = "r_"
"""Begins the name of every output parameter of `returning`."""
KEY_BYTES = 600
"""Size of a {key}: an id has at most 512 bytes, and some columns put a word before it."""
LONG_KEY_BYTES = {
    ("items", "place"): 2000,
    ("fresh_records", "id"): 2100,
    ("search_items", "id"): 2100,
    ("search_items", "place"): 2700,
    ("graph_entities", "name"): 1000,
    ("graph_relations", "start"): 1000,
    ("graph_relations", "target"): 1000,
}
SHORT_TEXTS = {
    *("basis", "color", "error", "file", "icon", "kinds", "label", "model", "name", "ns", "object"),
    *("operation", "path", "predicate", "role", "route", "source", "statement", "subject"),
    *("title", "type", "url"),
}
"""Columns of type {text} with at most 4,000 bytes. The others are large objects, which cannot be
sorted or grouped."""
COLUMN_TYPES = {
    "{key}": f"varchar2({KEY_BYTES} byte)",
    "{short}": "varchar2(4000 byte)",
    "{text}": "clob",
    "{json}": "clob",
    "{time}": "number(19)",
    "{int}": "number(19)",
    "{checksum}": "number(10)",
    "{real}": "binary_double",
    "{blob}": "blob",
}
IDENTITY = "GENERATED ALWAYS AS IDENTITY"
IDENTITY_IN_ORDER = f"{IDENTITY} (ORDER)"
"""Later numbers are larger, also if several instances (Real Application Clusters) give them."""
NUMBERS = frozenset(["{time}", "{int}", "{checksum}", "{real}"])
_WORDS = {
    "{text}": "text",
    "{key}": "text",
    "{json}": "text",
    "{time}": "bigint",
    "{int}": "bigint",
    "{real}": "double precision",
    "{number}": "double precision",
    "{strict}": "",
    "{bytes_begin}": "",
    "{bytes_end}": "",
    "{fields}": "value",
    "{members_of_versions}": "members_of_versions(versions)",
}
_CASTS = {"TEXT": "varchar2(4000)", "BIGINT": "number(19)", "DOUBLE": "binary_double"}
_PLACEHOLDER = re.compile(r"(\"[^\"]*\"|'(?:[^']|'')*')|:(\w+)")


@dataclass(frozen=True)
class Statement:
    """A statement in Oracle's SQL."""

    text: str
    parameters: tuple[str, ...]  # without the prefix
    numbers: frozenset[str]  # parameters that are numbers, for those that are null
    outputs: tuple[str, ...] = ()  # the types of what `returning` returns, as in COLUMN_TYPES


@dataclass(frozen=True)
class Translation:
    """The Oracle statements that do the work of one statement of the project."""

    statement: Statement
    update: Statement | None = None  # runs first; if it changes no row, the statement runs
    lock: Statement | None = None  # runs before the update, and locks a row that it may leave alone
    skips_duplicates: bool = False  # a violated key means that the statement changes nothing
    existing: Statement | None = None  # finds the row whose key is violated, if it is the key named
    is_merge: bool = False


@cache
def translate(sql: str, *, is_scoped: bool = True) -> Translation:
    """Return a statement in Oracle's SQL; raise `UnscopedSql` if it does not use the tenant."""
    try:
        return _translate(require_tenant(sql) if is_scoped else sql)
    except (SqlglotError, KeyError, ValueError) as error:
        problem = f"this statement cannot be translated to Oracle's SQL ({error}): {sql}"
        raise StorageError(problem=problem) from error


def _translate(sql: str) -> Translation:
    tree: Node = parse_one(_expand(sql), read="postgres")
    if isinstance(tree, exp.Insert) and (conflict := tree.args.get("conflict")):
        tree.set("conflict", None)
        updates = conflict.expressions or None
        if not isinstance(tree.expression, exp.Values) or len(tree.expression.expressions) > 1:
            return Translation(_statement(_merge(tree, conflict)), is_merge=True)
        if updates:
            lock = _statement(_lock(tree, conflict)) if conflict.args.get("where") else None
            return Translation(_statement(tree), _statement(_update(tree, conflict)), lock)
        existing = None
        if _conflict_keys(conflict):
            existing = _statement(_existing(tree, conflict))
        return Translation(_statement(tree), skips_duplicates=True, existing=existing)
    return Translation(_statement(tree))


def _expand(sql: str) -> str:
    for word, meaning in _WORDS.items():
        sql = sql.replace(word, meaning)
    return sql


def _statement(tree: Node) -> Statement:
    outputs: tuple[str, ...] = ()
    tree = _compare_rows(tree.copy())
    numbers = frozenset(_number_parameters(tree))
    if returning := tree.args.get("returning"):
        tree.set("returning", None)
        table = tree.find(exp.Table).name
        outputs = tuple(column_type(table, column.name) for column in returning.expressions)
    for rewrite in _REWRITES:
        tree = rewrite(tree)
    text = tree.sql("oracle", identify=True, comments=False)
    if returning:
        names = ", ".join(f'"{column.name}"' for column in returning.expressions)
        into = ", ".join(f":{OUTPUT}{number}" for number in range(len(outputs)))
        text = f"{text} returning {names} into {into}"
    parameters: dict[str, None] = {}

    def prefixed(match: re.Match[str]) -> str:
        if match[1] or match[2].startswith(OUTPUT):
            return match[0]
        parameters[match[2]] = None
        return f":{PREFIX}{match[2]}"

    text = _PLACEHOLDER.sub(prefixed, text)
    return Statement(text, tuple(parameters), numbers, outputs)


def _number_parameters(tree: Node) -> Iterator[str]:
    """Yield the parameters that are numbers, by where they stand."""
    columns_of = _columns_of(tree)
    if isinstance(tree, exp.Insert) and isinstance(tree.expression, exp.Values):
        for name, value in _values(tree).items() if isinstance(tree.this, exp.Schema) else ():
            if isinstance(value, exp.Placeholder) and columns_of[name].kind in NUMBERS:
                yield value.name
    for placeholder in tree.find_all(exp.Placeholder):
        parent = placeholder.parent
        columns = [
            columns_of[column.name].kind
            for column in parent.find_all(exp.Column)
            if column.name in columns_of
        ]
        is_number = (
            isinstance(parent, exp.Limit | exp.Offset | exp.Add | exp.Sub | exp.Mul)
            or (isinstance(parent, exp.Cast) and parent.to.this.value in ("BIGINT", "DOUBLE"))
            or (isinstance(parent, exp.EQ) and parent.expression.is_int)
            or (isinstance(parent, exp.Predicate) and isinstance(parent.this, exp.Length))
        )
        is_compared = isinstance(parent, exp.Predicate | exp.Coalesce) and columns
        if is_number or (is_compared and columns[0] in NUMBERS):
            yield placeholder.name


def _columns_of(tree: Node) -> dict[str, Column]:
    """Return the columns of the tables that a statement names; large ones count first."""
    tables = {table.name for table in tree.find_all(exp.Table)}
    columns = [
        (name, column) for (table, name), column in schema().columns.items() if table in tables
    ]
    return dict(sorted(columns, key=lambda item: item[1].oracle_type == "clob"))


# -- insert … on conflict --------------------------------------------------------------------


def _values(insert: Node) -> dict[str, Node]:
    """Return what an insert of one row puts into each column."""
    columns = [column.name for column in insert.this.expressions]
    (row,) = insert.expression.expressions
    return dict(zip(columns, row.expressions, strict=True))


def _update(insert: Node, conflict: Node) -> Node:
    """Return the update of the row whose key an insert of one row has."""
    table = insert.this.this
    values = _values(insert)

    def resolve(node: Node) -> Node:
        if isinstance(node, exp.Column) and node.table == "excluded":
            value = values[node.name].copy()
            return value if isinstance(value, exp.Placeholder) else exp.paren(value)
        return node

    condition = _same_key(insert, conflict)
    if where := conflict.args.get("where"):
        condition = exp.and_(condition, exp.paren(where.this.copy()))
    update = exp.Update(
        this=table.copy(),
        expressions=[expression.copy() for expression in conflict.expressions],
        where=exp.Where(this=condition),
        returning=insert.args.get("returning"),
    )
    return update.transform(resolve)


def _lock(insert: Node, conflict: Node) -> Node:
    """Return the select that locks the row whose key an insert of one row has.

    `on conflict do update … where` locks the row even if the condition excludes it.
    """
    return _existing(insert, conflict).lock(update=True)


def _existing(insert: Node, conflict: Node) -> Node:
    """Return the select of the row whose key an insert of one row has."""
    return exp.select("1").from_(insert.this.this.copy()).where(_same_key(insert, conflict))


def _same_key(insert: Node, conflict: Node) -> Node:
    table = insert.this.this.name
    values = _values(insert)
    return exp.and_(
        *[exp.column(key, table).eq(values[key].copy()) for key in _conflict_keys(conflict)]
    )


def _merge(insert: Node, conflict: Node) -> Node:
    """Return the `merge` for an insert of the rows of a select."""
    table = insert.this.this
    columns = [column.name for column in insert.this.expressions]
    keys = _conflict_keys(conflict) or primary_key(table.name)
    if isinstance(insert.expression, exp.Values):
        source = _union([row.expressions for row in insert.expression.expressions], columns)
    else:
        source = insert.expression.copy()
        source.set("expressions", _named(source.expressions, columns))
    whens = []
    if conflict.expressions:
        update = exp.Update(
            expressions=[expression.copy() for expression in conflict.expressions],
            where=conflict.args.get("where"),
        )
        whens.append(exp.When(matched=True, then=update))
    whens.append(
        exp.When(
            matched=False,
            then=exp.Insert(
                this=exp.Tuple(expressions=[exp.column(column) for column in columns]),
                expression=exp.Tuple(
                    expressions=[exp.column(column, "excluded") for column in columns]
                ),
            ),
        )
    )
    return exp.Merge(
        this=table.copy(),
        using=source.subquery("excluded"),
        on=exp.paren(
            exp.and_(*[exp.column(key, table.name).eq(exp.column(key, "excluded")) for key in keys])
        ),
        whens=exp.Whens(expressions=whens),
    )


def _union(rows: list[list[Node]], columns: list[str]) -> Node:
    """Return a select of constant rows."""
    selects = [exp.select(*_named(row, columns)) for row in rows]
    return exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]


def _named(values: list[Node], columns: list[str]) -> list[Node]:
    return [
        exp.alias_(value.unalias().copy(), column)
        for value, column in zip(values, columns, strict=True)
    ]


def _conflict_keys(conflict: Node) -> list[str]:
    return [
        identifier.name
        for key in conflict.args.get("conflict_keys") or ()
        for identifier in [key.find(exp.Identifier)]
    ]


# -- large texts -----------------------------------------------------------------------------


def _treat_large_texts(tree: Node) -> Node:
    """Compare large texts by a function, and make texts large that are mixed with them."""
    columns = _columns_of(tree)

    def is_large(node: Node) -> bool:
        match node:
            case exp.Column():
                return node.name in columns and columns[node.name].oracle_type == "clob"
            case exp.Subquery(this=exp.Select() as select):
                return is_large(select.selects[0])
            case exp.Alias() | exp.Paren():
                return is_large(node.this)
            case exp.Anonymous():
                return node.name.lower() == "to_clob"
            case exp.Coalesce() | exp.Case() | exp.DPipe() | exp.Substring() | exp.Trim():
                return any(is_large(part) for part in results(node))
        return False

    def results(node: Node) -> list[Node]:
        """Return the parts of an expression that can be its value."""
        match node:
            case exp.Case():
                branches = [branch.args["true"] for branch in node.args["ifs"]]
                return [*branches, *([node.args["default"]] if node.args.get("default") else [])]
            case exp.DPipe():
                return [node.left, node.right]
            case exp.Coalesce():
                return [node.this, *node.expressions]
        return [node.this]

    def enlarge(parts: list[Node]) -> None:
        for part in parts:
            value = part.unalias()
            if not is_large(value) and not isinstance(value, exp.Null):
                value.replace(exp.func("to_clob", value.copy()))

    assigned = {id(part) for part in tree.args.get("expressions") or ()}
    for node in reversed(list(tree.walk())):  # from the inside
        if isinstance(node, exp.EQ | exp.NEQ) and id(node) not in assigned:
            sides = [node.this, node.expression]
            if any(map(is_large, sides)):
                enlarge(sides)
                compared = exp.func("dbms_lob.compare", node.this.copy(), node.expression.copy())
                node.replace(type(node)(this=compared, expression=exp.Literal.number(0)))
        elif isinstance(node, exp.Coalesce | exp.Case) and is_large(node):
            enlarge(results(node))
        elif isinstance(node, exp.Union):
            branches = list(_branches(node))
            for values in zip(*[branch.selects for branch in branches], strict=True):
                if any(map(is_large, values)):
                    enlarge(list(values))
    return tree


def _measure_bytes(tree: Node) -> Node:
    """Use `dbms_lob.getlength` for BLOB columns; `length` is for text."""
    columns = _columns_of(tree)
    for node in list(tree.find_all(exp.Length)):
        if node.this.name in columns and columns[node.this.name].kind == "{blob}":
            node.replace(exp.func("dbms_lob.getlength", node.this.copy()))
    return tree


def _branches(node: Node) -> Iterator[Node]:
    """Yield the selects of a union."""
    if isinstance(node, exp.Union):
        yield from _branches(node.left)
        yield from _branches(node.right)
    elif isinstance(node, exp.Select):
        yield node


# -- rewrites --------------------------------------------------------------------------------


def _each(
    kinds: type | tuple[type, ...],
) -> Callable[..., Callable[[Node], Node]]:
    """Make a rewrite of a whole statement from one of the expressions of some kinds."""

    def decorate(
        rewrite: Callable[[Node], Node],
    ) -> Callable[[Node], Node]:
        def run(tree: Node) -> Node:
            return tree.transform(
                lambda node: rewrite(node) if isinstance(node, kinds) else node, copy=False
            )

        return run

    return decorate


@_each(exp.Literal)
def _mark_empty_texts(node: Node) -> Node:
    if node.is_string and node.this == "":
        return exp.func("chr", exp.Literal.number(0))
    return node


def _concatenate(tree: Node) -> Node:
    """Keep what `||` returns for null and for an empty text, which Oracle treats alike."""
    columns = _columns_of(tree)

    def is_nullable(part: Node) -> bool:
        if isinstance(part, exp.Placeholder):
            return True
        return isinstance(part, exp.Column) and columns[part.name].is_nullable

    def without_mark(part: Node) -> Node:
        if part.is_string or isinstance(part, exp.Cast):
            return part.copy()
        return exp.func("replace", part.copy(), exp.func("chr", exp.Literal.number(0)))

    for node in list(tree.find_all(exp.DPipe)):
        if isinstance(node.parent, exp.DPipe):
            continue
        if not node.find_ancestor(exp.Predicate, exp.Coalesce, exp.Case):
            continue  # the engine removes the mark from what it reads
        parts = list(node.flatten(unnest=False))
        whole = without_mark(parts[0])
        for part in parts[1:]:
            whole = exp.DPipe(this=whole, expression=without_mark(part))
        nullable = [part for part in parts if is_nullable(part)]
        if nullable:
            known = exp.and_(*[exp.Not(this=part.copy().is_(exp.null())) for part in nullable])
            whole = exp.case().when(known, whole)
        node.replace(whole)
    return tree


@_each(exp.Div)
def _divide_integers(node: Node) -> Node:
    if isinstance(node.parent, exp.Anonymous):
        return node
    return exp.func("trunc", node.copy())


@_each((exp.GT, exp.LT))
def _compare_rows(node: Node) -> Node:
    """Compare the first columns, and the next ones if they are equal."""
    if not isinstance(node.this, exp.Tuple):
        return node
    compare = type(node)
    pairs = list(zip(node.this.expressions, node.expression.expressions, strict=True))
    condition: Node = compare(this=pairs[-1][0].copy(), expression=pairs[-1][1].copy())
    for left, right in reversed(pairs[:-1]):
        condition = exp.or_(
            compare(this=left.copy(), expression=right.copy()),
            exp.and_(exp.EQ(this=left.copy(), expression=right.copy()), condition),
        )
    return exp.paren(condition)


@_each(exp.Values)
def _select_values(node: Node) -> Node:
    """Write `values (…), (…)` outside an insert as a union."""
    if isinstance(node.parent, exp.Insert):
        return node
    rows = [row.expressions for row in node.expressions]
    return _union(rows, [f"c{number}" for number in range(len(rows[0]))]).subquery()


@_each(exp.Select)
def _complete_select(node: Node) -> Node:
    """Select from `dual` where no table is named, and write conditions as 1 and 0."""
    if not node.args.get("from_"):
        node.set("from_", exp.From(this=exp.to_table('"DUAL"')))
    for projection in node.expressions:
        value = projection.unalias()
        if isinstance(value, exp.Boolean):
            value.replace(exp.Literal.number(int(value.this)))
        elif _is_condition(value):
            value.replace(exp.case().when(value.copy(), "1").else_("0"))
    return node


@_each(exp.Boolean)
def _write_truth(node: Node) -> Node:
    return exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(int(node.this)))


@_each(exp.Cast)
def _cast(node: Node) -> Node:
    kind = _CASTS[node.to.this.value]
    return exp.Cast(this=node.this, to=exp.DataType.build(kind, dialect="oracle", udt=True))


@_each(exp.With)
def _plain_with(node: Node) -> Node:
    """Write `with recursive`; a recursive union with `distinct` selects distinct rows later."""
    node.set("recursive", None)
    ctes = []
    for cte in node.expressions:
        cte.set("materialized", None)
        ctes.append(cte)
        name = cte.alias
        is_recursive = any(table.name == name for table in cte.this.find_all(exp.Table))
        if is_recursive and isinstance(cte.this, exp.Union) and cte.this.args.get("distinct"):
            cte.this.set("distinct", False)
            columns = [column.name for column in cte.args["alias"].columns]
            for identifier in cte.find_all(exp.Identifier):
                if identifier.name == name:
                    identifier.set("this", f"{name}_all")
            ctes.append(
                exp.CTE(
                    this=exp.select(*columns).distinct().from_(f"{name}_all"),
                    alias=exp.TableAlias(
                        this=exp.to_identifier(name),
                        columns=[exp.to_identifier(column) for column in columns],
                    ),
                )
            )
    node.set("expressions", ctes)
    return node


@_each(exp.Select)
def _members_of_versions(node: Node) -> Node:
    """Find the stored values of a checkpoint's channels by the JSON text of their versions.

    Oracle cannot list the members of a JSON object. The text is compact, and no key has a control
    character, so a member is found with the brace or comma before it.
    """
    for join in node.args.get("joins") or ():
        if "members_of_versions" not in join.this.sql().lower():
            continue
        join.set("this", _STORED_VALUES.copy().subquery(join.this.alias))
        node.where(_HAS_MEMBER.copy(), copy=False)
    return node


_STORED_VALUES: Node = parse_one(
    """select channel as key, version as value from channel_values
       where tenant = :tenant and line = :line""",
    read="postgres",
)
_MEMBER = (
    """'"' || replace(replace(pair.key, '\\', '\\\\'), '"', '\\"') || '":"' || pair.value || '"'"""
)
_HAS_MEMBER = parse_one(
    f"(instr(step.versions, '{{' || {_MEMBER}) > 0 or instr(step.versions, ',' || {_MEMBER}) > 0)",
    read="oracle",
)


@_each((exp.In, exp.GTE, exp.LTE, exp.Between))
def _drop_json_probe(node: Node) -> Node:
    """Drop a condition on a field of a JSON text by a name that is a parameter.

    A path must be constant in Oracle. Such conditions only save work: items.py checks the fields.
    """
    if node.find(exp.JSONExtract, exp.JSONExtractScalar) and not node.find(exp.Select):
        return exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1))
    return node


@_each(exp.Anonymous)
def _rename_functions(node: Node) -> Node:
    if node.name.lower() == "octet_length":
        return exp.func("lengthb", *node.expressions)
    return node


def _is_condition(node: Node) -> bool:
    if isinstance(node, exp.Paren):
        return _is_condition(node.this)
    return isinstance(node, exp.Predicate | exp.Connector | exp.Not)


_REWRITES = (
    _drop_json_probe,
    _treat_large_texts,
    _measure_bytes,
    _concatenate,
    _members_of_versions,
    _mark_empty_texts,
    _divide_integers,
    _select_values,
    _complete_select,
    _write_truth,
    _cast,
    _plain_with,
    _rename_functions,
)


# -- migrations ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column as the migrations define it."""

    kind: str  # such as {key}
    oracle_type: str
    is_nullable: bool


@dataclass(frozen=True)
class Schema:
    """The tables that the migrations create.

    `columns` and `since` have those, too, that a later migration drops: a step down creates them again.
    """

    columns: dict[tuple[str, str], Column]
    keys: dict[str, tuple[str, ...]]
    indexes: dict[str, tuple[str, ...]]  # table and columns by the name of the index
    since: dict[str, int]  # the migration that creates each table
    until: dict[str, int]  # the migration that drops a table
    skipped: frozenset[str]  # indexes whose columns another index has


def column_type(table: str, column: str) -> str:
    """Return the type of a column, such as {key}."""
    return schema().columns[table, column].kind


def primary_key(table: str) -> tuple[str, ...]:
    """Return the columns of a table's primary key."""
    return schema().keys[table]


@cache
def schema() -> Schema:
    """Return the tables of the newest version."""
    result = Schema({}, {}, {}, {}, {}, frozenset())
    skipped = set()
    for migration in shipped():
        for tree in _parse_script(migration.up):
            if isinstance(tree, exp.Create) and tree.kind == "INDEX":
                table = tree.this.args["table"].name
                place = (table, *_index_columns(tree))
                if place in result.indexes.values() or place[1:] == result.keys[table]:
                    skipped.add(tree.this.name)
                result.indexes[tree.this.name] = place
            if isinstance(tree, exp.Drop) and tree.kind == "TABLE":
                dropped: Node = tree.find(exp.Table)
                table = dropped.name
                result.until[table] = migration.number
                del result.keys[table]
                for index in [name for name, place in result.indexes.items() if place[0] == table]:
                    del result.indexes[index]
            for definition in tree.find_all(exp.ColumnDef):
                table = tree.find(exp.Table).name
                result.since.setdefault(table, migration.number)
                kind = f"{{{definition.kind.sql().lower().removeprefix(_TYPE)}}}"
                result.columns[table, definition.name] = Column(
                    kind,
                    _oracle_type(table, definition.name, kind),
                    definition.find(exp.NotNullColumnConstraint) is None,
                )
                if definition.find(exp.PrimaryKeyColumnConstraint):
                    result.keys[table] = (definition.name,)
            for key in tree.find_all(exp.PrimaryKey):
                result.keys[tree.find(exp.Table).name] = tuple(
                    identifier.name for identifier in key.find_all(exp.Identifier)
                )
    return replace(result, skipped=frozenset(skipped))


_TYPE = "memorist_type_"


def _index_columns(tree: Node) -> tuple[str, ...]:
    parameters = tree.this.args["params"]
    return tuple(column.name for column in parameters.args["columns"])


def _oracle_type(table: str, column: str, kind: str) -> str:
    if kind == "{key}" and (table, column) in LONG_KEY_BYTES:
        return f"varchar2({LONG_KEY_BYTES[table, column]} byte)"
    if kind == "{text}" and column in SHORT_TEXTS:
        return COLUMN_TYPES["{short}"]
    return COLUMN_TYPES[kind]


def _parse_script(script: str) -> list[Node]:
    text = re.sub(r"\{(\w+)\}", lambda match: _TYPE + match[1], script.replace("{strict}", ""))
    return [tree for tree in parse(text, read="postgres") if tree is not None]


def migration_statements(script: str) -> list[str]:
    """Return the statements of a migration in Oracle's SQL, each for a call of its own."""
    return [text for tree in _parse_script(script) if (text := _migration_statement(tree))]


def _migration_statement(statement: Node) -> str:
    tree: Node = statement
    match statement:
        case exp.Select():  # `select 1`: the version is for another engine
            return ""
        case exp.Create(kind="INDEX"):
            if tree.this.name in schema().skipped:
                return ""
            tree.this.args["params"].set("where", None)
        case exp.Drop(kind="INDEX"):
            name: Node = tree.find(exp.Identifier)
            if name.name in schema().skipped:
                return ""
        case exp.Alter(actions=[exp.AlterColumn() as change]):
            table = tree.find(exp.Table).name
            null = "null" if change.args.get("allow_null") else "not null"
            return f'ALTER TABLE "{table}" MODIFY ("{change.name}" {null})'
        case exp.Insert() if tree.args.get("conflict"):
            conflict = tree.args["conflict"]
            tree.set("conflict", None)
            tree = _merge(tree, conflict)
    for definition in tree.find_all(exp.ColumnDef):
        column = schema().columns[tree.find(exp.Table).name, definition.name]
        definition.set(
            "kind", exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=column.oracle_type)
        )
        constraints = definition.args["constraints"]  # Oracle wants the default first
        constraints.sort(key=lambda constraint: not constraint.find(exp.DefaultColumnConstraint))
    for rewrite in (_mark_empty_texts, _complete_select, _write_truth):
        tree = rewrite(tree)
    text = str(tree.sql("oracle", identify=True, comments=False))
    return text.replace(IDENTITY, IDENTITY_IN_ORDER)
