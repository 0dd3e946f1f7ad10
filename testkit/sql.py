"""The SQL statements of the package, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import memorist
import memorist_oracle

SOURCE = Path(memorist.__file__).parent
ORACLE = Path(memorist_oracle.__file__).parent
METHODS = {"all", "one", "run", "send", "many", "each", "lock_rows", "unscoped"}
DRIVERS = {"execute", "executemany", "pragma", "copy"}
ENGINES = re.compile(r"storage/(sqlite|postgres)/\w+\.py|memorist_oracle/\w+\.py")
BUILDERS = {
    "storage/tables.py",
    "storage/postgres/views.py",
    "storage/sqlite/views.py",
    "memorist_oracle/dialect.py _migration_statement",
    "memorist_oracle/engine.py columns",
    "memorist_oracle/engine.py health",
    "memorist_oracle/security.py grants",
    "memorist_oracle/security.py policies",
    "storage/postgres/migration_script.py script",
    "storage/sqlite/maintenance.py reclaim_space",
    "storage/sqlite/maintenance.py script",
    "memorist_oracle/foreign_schema.py read_table",
    "storage/sqlite/foreign_file.py read_table",
}
"""Where statements are put together at run time: whole tables' from checked names, migrations and views from our own files, and
another program's tables and columns by their quoted names, for reading only. A pragma takes no parameters, so it has the number of pages."""
READS_OF_KINDS = {
    "self.select.replace('{where}', where)",
    "self.select.replace('{where}', condition)",
    "columns",
    "', '.join(self.key)",
}
"""What the statements of search/search_document.py consist of: the constant `select` of a kind, and its key columns."""
TABLES = {
    "select", "delete", "delete_of_agent", "insert", "find", "count", "count_sampled", "outermost",
    "texts", "find_text", "texts_of_row",
}  # fmt: skip
LOOKS_LIKE_SQL = re.compile(
    r"\s*(select|with \w+ as|insert into|update \w+ set|delete from|"
    r"(create|alter|drop) (table|index|unique|view|function|trigger|policy|role|schema|virtual|extension|database)|grant|revoke|pragma|"
    r"vacuum|set local|truncate|savepoint|rollback to|begin;)\b",
    re.IGNORECASE,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Module:
    """A module with the parent of each node of its syntax tree."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)
        self.nodes: list[ast.AST] = [self.tree]
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:  # the loop appends to this list
            children = list(ast.iter_child_nodes(node))
            self.parents.update(dict.fromkeys(children, node))
            self.nodes.extend(children)

    def functions(self, node: ast.AST) -> Iterator[Function]:
        """Yield the functions around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, Function):
                yield node

    def problems(self) -> Iterator[str]:
        for call in self.calls(METHODS):
            if ast.unparse(call.func).startswith("tx.") and not self.constant(call.args[0], call):
                yield f"{self.where(call)}: {ast.unparse(call.args[0])} is no constant statement"
        for call in [] if ENGINES.fullmatch(self.name) else self.calls(DRIVERS):
            yield f"{self.where(call)}: only an engine talks to its driver"
        for node in self.nodes:
            if self.built(node) and not BUILDERS & {
                self.name,
                f"{self.name} {self.outermost(node)}",
            }:
                yield f"{self.where(node)}: a statement is put together: {ast.unparse(node)[:80]}"

    def calls(self, methods: set[str]) -> Iterator[ast.Call]:
        """Yield every call of a method with one of these names."""
        for node in self.nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in methods
                and node.args
            ):
                yield node

    def where(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 0)}"

    def outermost(self, node: ast.AST) -> str:
        names = [f.name for f in self.functions(node) if not isinstance(f, ast.Lambda)]
        return names[-1] if names else ""

    def constant(self, node: ast.AST, use: ast.AST) -> bool:
        """Return True if an expression can only be a statement written in the source."""
        match node:
            case ast.Constant(value=str()):
                return True
            case ast.IfExp(body=yes, orelse=no):
                return self.constant(yes, use) and self.constant(no, use)
            case ast.Subscript(value=ast.Name() as table):
                return self.constant(table, use) or self.imports_constant(table.id)
            case ast.Attribute(value=ast.Name(id="check"), attr="sql"):
                return self.name == "storage/transfer/verify.py"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="table"), attr=method)) if (
                method in TABLES
            ):
                return self.name.startswith(("storage/", "memorist_oracle/"))
            case ast.FormattedValue(value=ast.expr() as value) | (ast.Call() as value) if (
                self.name == "search/search_document.py"
            ):
                return ast.unparse(value) in READS_OF_KINDS
            case ast.JoinedStr(values=parts):
                return all(self.constant(part, use) for part in parts)
            case ast.FormattedValue(value=ast.Call(func=ast.Name(id=name), args=values)):
                return name.endswith("_sql") and all(self.constant(value, use) for value in values)
            case ast.FormattedValue(value=ast.Name(id=name)):
                return self.resolved(name, use) or self.imports_constant(name)
            case ast.FormattedValue(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[])
            ):
                return self.returns_constants(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.constant(left, use) and self.constant(right, use)
            case ast.Subscript(value=ast.Dict(values=values)):
                return all(self.constant(value, use) for value in values)
            case ast.Call(func=ast.Attribute(value=text, attr="replace"), args=values):
                return all(self.constant(value, use) for value in [text, *values])
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(), attr="join"),
                args=[
                    ast.ListComp(
                        elt=ast.JoinedStr(), generators=[ast.comprehension(iter=ast.Name(id=name))]
                    )
                ],
            ):
                return name.isupper()
            case ast.Name(id=name):
                return self.resolved(name, use) or self.imports_constant(name)
        return False

    def returns_constants(self, name: str) -> bool:
        """Return True if every `return` of a method without parameters is a constant."""
        returns = [
            node
            for function in self.nodes
            if isinstance(function, ast.FunctionDef) and function.name == name
            for node in ast.walk(function)
            if isinstance(node, ast.Return)
        ]
        return bool(returns) and all(
            node.value is not None and self.constant(node.value, node) for node in returns
        )

    def passed_constants(self, function: Function, name: str) -> bool:
        """Return True if every call of a private function in its module passes a constant."""
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("_"):
            return False
        names = [argument.arg for argument in function.args.args]
        place = names.index(name) - int(names[0] == "self") if name in names else -1
        calls = [
            call
            for call in self.nodes
            if isinstance(call, ast.Call)
            and ast.unparse(call.func).removeprefix("self.") == function.name
        ]
        return bool(calls) and all(
            0 <= place < len(call.args) and self.constant(call.args[place], call) for call in calls
        )

    def imports_constant(self, name: str) -> bool:
        """Return True for a constant of another module of ours, by its upper-case name."""
        return name.isupper() and any(
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("memorist.")
            and any(alias.name == name for alias in node.names)
            for node in self.tree.body
        )

    def resolved(self, name: str, use: ast.AST) -> bool:
        """Return True if every value of a name, in its nearest scope, is a constant."""
        for function in self.functions(use):
            arguments = function.args
            defaults = dict(
                zip([a.arg for a in arguments.args][::-1], arguments.defaults[::-1], strict=False)
            )
            if name in defaults and isinstance(function, ast.Lambda):
                return self.constant(defaults[name], use)
            if name in {
                a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            }:
                return self.passed_constants(function, name)
            if isinstance(function, ast.Lambda):
                continue
            values = list(assigned(function, name))
            if values:
                return all(self.constant(value, use) for value in values)
        return any(at_import(value) for value in assigned(self.tree, name))

    def built(self, node: ast.AST) -> bool:
        """Return True if a function composes text that starts like a statement."""
        if not isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
            return False
        if not any(True for _ in self.functions(node)):
            return False
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str() as start), *rest]):
                return bool(rest and LOOKS_LIKE_SQL.match(start) and not self.constant(node, node))
            case ast.BinOp(left=ast.Constant(value=str() as start), op=ast.Add() | ast.Mod()):
                return bool(LOOKS_LIKE_SQL.match(start))
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Constant(value=str() as start), attr="format" | "replace" | "join"
                )
            ):
                return bool(LOOKS_LIKE_SQL.match(start))
        return False


def assigned(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """Return the values bound to a name in a scope, without nested functions."""
    body = getattr(scope, "body", [])
    waiting = list(body) if isinstance(body, list) else [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from bound(target, node.value, name)
        if isinstance(node, ast.AugAssign):
            yield from bound(node.target, node.value, name)
        if isinstance(node, ast.AnnAssign) and node.value:
            yield from bound(node.target, node.value, name)
        if isinstance(node, ast.For):
            yield from bound(node.target, node.iter, name, iterated=True)
        waiting.extend(ast.iter_child_nodes(node))


def bound(target: ast.AST, value: ast.AST, name: str, iterated: bool = False) -> Iterator[ast.AST]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    if isinstance(target, ast.Tuple):
        for place, part in enumerate(target.elts):
            for choice in [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]:
                part_of = (
                    choice.elts[place] if isinstance(choice, ast.Tuple) and not iterated else choice
                )
                yield from bound(part, part_of, name)


def at_import(value: ast.AST) -> bool:
    """Return True if a module-level value is made only of constants of the module."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    names = {
        call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        for call in calls
    }
    return names <= {"replace", "join", "format", "str"}


@cache
def modules() -> list[Module]:
    files = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    files |= {f"{ORACLE.name}/{path.relative_to(ORACLE)}": path for path in ORACLE.rglob("*.py")}
    return [Module(name, files[name].read_text(encoding="utf-8")) for name in sorted(files)]
