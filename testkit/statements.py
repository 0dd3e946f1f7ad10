"""Every SQL statement of memorist, collected from the source.

The first argument of each call of a transaction's method is evaluated: constants, constants of the
module, and local names with each value that the function assigns to them. The statements of whole
tables and of checks come from the kinds. Statements of one engine alone are left out.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from memorist.kinds import KINDS
from memorist.storage.tables import Table
from testkit.sql import METHODS, Function, Module, assigned, modules

OTHER_ENGINES = re.compile(r"(storage|search)/(sqlite|postgres)|memorist_oracle/(?!search)")
STARTS = re.compile(r"\s*(select|insert into|update|delete from|with)\b")


@cache
def statements() -> dict[str, str]:
    """Return where each statement is, by its text."""
    collected: dict[str, str] = {}
    for module in modules():
        if OTHER_ENGINES.match(module.name):
            continue
        calls = [call for call in module.calls(METHODS) if ast.unparse(call.func)[:3] == "tx."]
        if not calls:
            continue
        source = Source(module)
        for call in calls:
            lock = " for update" if ast.unparse(call.func) == "tx.lock_rows" else ""
            for text in source.values(call.args[0], call):
                if STARTS.match(text):  # else it is a part that another value completes
                    collected.setdefault(text + lock, module.where(call))
    for kind in KINDS:
        for check in kind.checks:
            if check.sql:
                collected.setdefault(check.sql, f"check of {kind.name}")
        for table in kind.tables:
            for text in of_table(table):
                collected.setdefault(text, f"table {table.name}")
    return collected


def of_table(table: Table) -> Iterator[str]:
    """Yield the statements that are built for a table."""
    yield table.select(of_user=False)
    yield table.count()
    yield table.find()
    if table.owned:
        yield table.select(of_user=True)
        yield table.delete()
    if table.of_agent:
        yield table.delete_of_agent()


class Source:
    """Evaluates the expressions of a module that are statements."""

    def __init__(self, module: Module) -> None:
        self.module = module
        name = module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.names = vars(
            importlib.import_module(name if name.startswith("memorist_") else f"memorist.{name}")
        )

    def values(self, node: ast.AST, use: ast.AST) -> list[str]:
        """Return every text that an expression can be."""
        match node:
            case ast.Constant(value=str() as text):
                return [text]
            case ast.IfExp(body=yes, orelse=no):
                return [*self.values(yes, use), *self.values(no, use)]
            case ast.JoinedStr(values=parts):
                return self.joined([self.values(part, use) for part in parts])
            case ast.FormattedValue(value=part):
                return self.values(part, use)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.joined([self.values(left, use), self.values(right, use)])
            case ast.Subscript(value=ast.Dict(values=values)):
                return [text for value in values for text in self.values(value, use)]
            case ast.Subscript(value=table):
                return self.values(table, use)
            case ast.Call(func=ast.Attribute(value=text, attr="replace"), args=[old, new]):
                return [
                    one.replace(was, becomes)
                    for one in self.values(text, use)
                    for was in self.values(old, use)
                    for becomes in self.values(new, use)
                ]
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name.endswith("_sql"):
                return [self.names[name](text) for text in self.values(argument, use)]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[]):
                return self.returned(name)
            case ast.Name(id=name):
                return self.named(name, use)
        return self.constant(node)

    def joined(self, parts: Sequence[Sequence[str]]) -> list[str]:
        """Return every combination of the parts."""
        return ["".join(chosen) for chosen in itertools.product(*parts)]

    def constant(self, node: ast.AST) -> list[str]:
        """Return the value of an expression of names of the module; none if it has others."""
        try:
            return list(texts(eval(ast.unparse(node), dict(self.names))))
        except (NameError, AttributeError):
            return []

    def returned(self, name: str) -> list[str]:
        """Return what a method without parameters can return."""
        return [
            text
            for function in self.module.nodes
            if isinstance(function, ast.FunctionDef) and function.name == name
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and node.value is not None
            for text in self.values(node.value, node)
        ]

    def named(self, name: str, use: ast.AST) -> list[str]:
        """Return the values of a name in its nearest scope."""
        for function in self.module.functions(use):
            arguments = [*function.args.args, *function.args.kwonlyargs]
            if name in {argument.arg for argument in arguments}:
                return self.passed(function, name)
            if isinstance(function, ast.Lambda):
                continue
            if values := list(assigned(function, name)):
                return [text for value in values for text in self.values(value, function.body[-1])]
        return list(texts(self.names.get(name)))

    def passed(self, function: Function, name: str) -> list[str]:
        """Return what the calls of a function in its module pass."""
        names = [argument.arg for argument in function.args.args]
        if isinstance(function, ast.Lambda):
            defaults = dict(zip(names[::-1], function.args.defaults[::-1], strict=False))
            return self.values(defaults[name], function) if name in defaults else []
        place = names.index(name) - int(names[0] == "self") if name in names else -1
        return [
            text
            for call in self.module.nodes
            if isinstance(call, ast.Call)
            and ast.unparse(call.func).removeprefix("self.") == function.name
            and 0 <= place < len(call.args)
            for text in self.values(call.args[place], call)
        ]


def texts(value: Any) -> Iterator[str]:
    """Yield the texts of a constant: itself, or those in a mapping or a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts(part)
