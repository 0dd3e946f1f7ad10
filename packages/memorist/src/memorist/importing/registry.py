"""The formats that can be imported: SQL tables, and those of installed packages."""

from __future__ import annotations

from memorist.base.errors import Invalid, install_hint
from memorist.base.extensions import IMPORTERS, extensions
from memorist.importing import sql
from memorist.importing.importer import Importer

_OWN = {"sql": sql.IMPORTER}


def formats() -> list[str]:
    """Return the names of the formats, without importing their importers."""
    return [*extensions(IMPORTERS), *_OWN]


def find_importer(format: str) -> Importer:
    """Return the importer of a format."""
    if format in _OWN:
        return _OWN[format]
    installed = extensions(IMPORTERS)
    if format in installed:
        importer: Importer = installed[format].load()
        return importer
    problem = f"must be one of {', '.join(formats())}, not {format!r}"
    if not installed:
        problem = f"{problem}; for the formats of other systems, {install_hint('importers')}"
    raise Invalid(field="from", problem=problem)


def importers() -> dict[str, Importer]:
    """Return all importers by their format."""
    return {format: find_importer(format) for format in formats()}
