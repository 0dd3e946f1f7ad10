"""Everything that can go wrong, as one tree; an error's docstring is its message.

    RetainError
    ├── Invalid               the caller's input breaks a rule            422
    │   └── TooLarge          … by its size                               413
    ├── NotFound              nothing by that name that you may see       404
    │   └── NoSection         … among the headings of a document
    ├── Unauthorized          nobody who is known here                    401
    │   └── Forbidden         … or somebody who may not do this           403
    ├── NoIssuer              whoever signs tokens cannot be asked        503
    ├── TooMany               more, or faster, than is allowed            429
    ├── Overloaded            the server has enough to do                 503
    ├── Conflict              right request, wrong moment                 409
    │   ├── AlreadyExists
    │   ├── OutOfOrder        `expected_last_seq` did not match
    │   ├── WrongVersion      `if_version` did not match
    │   └── KeyReused         an idempotency key came back with other content
    ├── ModelError            a language model cannot do it               502
    │   ├── NoModel           none is set                                 503
    │   ├── ModelUnavailable  it fails, or does not answer in time        503
    │   ├── BadAnswer         it answers with what cannot be used
    │   └── PartlyAnswered    … or not at all, but only to some of several questions
    ├── SettingsError         the configuration cannot be used            500
    └── StorageError          the database cannot do it                   503
        ├── Busy              locked, or no connection free: try again
        ├── Full              the disk is nearly full                     507
        ├── ReadOnly
        ├── Unreachable       no such server, no such file, connection lost
        │   └── NoServer      … for a client: no retain server answers
        ├── InDoubt           cut off while committing
        ├── ReadTooLong       a reader was stopped so that the log can shrink
        ├── Corrupt           damaged pages                               500
        ├── NotOurs           another program's database                  500
        ├── NetworkDrive      SQLite on a file system that cannot lock    500
        ├── SchemaTooNew      written by a newer retain                   500
        └── SchemaTooOld      a migration waits for a role that may       500

A message names what to do next. `status` is the HTTP status and `exit_code` the exit status of the
command line: 2 bad input, 3 not found, 4 conflict, 5 database, 6 settings, 7 model, 8 access.
"""

from __future__ import annotations

import inspect
from typing import Any


class RetainError(Exception):
    """Something went wrong in retain."""

    status = 500
    exit_code = 1

    def __init__(self, **details: Any) -> None:
        self.details = details
        template = inspect.cleandoc(type(self).__doc__ or "").replace("\n", " ")
        super().__init__(f"{template.format(**details)} {details.get('hint', '')}".rstrip())

    def __getattr__(self, name: str) -> Any:
        """The details of an error are its attributes: `error.field`, `error.limit`."""
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def public(self) -> str:
        """What whoever calls over a network is told of it."""
        return str(self)

    def again(self) -> RetainError:
        """The same error as a new object, for another thread to raise."""
        return type(self)(**self.details)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.details)


def _rebuild(kind: type[RetainError], details: dict[str, Any]) -> RetainError:
    return kind(**details)


class Invalid(RetainError):
    """{field}: {problem}."""

    status = 422
    exit_code = 2


class TooLarge(Invalid):
    """{field}: {size} {unit} is over the limit of {limit}."""

    status = 413


class NotFound(RetainError):
    """There is no {what} {id!r} here."""

    status = 404
    exit_code = 3


class NoSection(NotFound):
    """There is no section {id!r} here: {has}."""


class Unauthorized(RetainError):
    """A key is needed here: {problem}. Send it as `Authorization: Bearer rtn_…`; `retain keys create` makes one."""

    status = 401
    exit_code = 8


class Forbidden(Unauthorized):
    """This is not allowed: {problem}."""

    status = 403


class NoIssuer(RetainError):
    """The keys that tokens are checked with cannot be read now. Try again in {seconds} s."""

    status = 503
    exit_code = 8


class TooMany(RetainError):
    """Too many requests: {problem}. Try again in {seconds} s."""

    status = 429
    exit_code = 8


class Overloaded(RetainError):
    """The server has enough to do: {problem}. Try again in {seconds} s."""

    status = 503
    exit_code = 5


class Conflict(RetainError):
    """{problem}."""

    status = 409
    exit_code = 4


class AlreadyExists(Conflict):
    """The {what} {id!r} exists already; edit it, or choose another name."""


class OutOfOrder(Conflict):
    """The session's last message is {actual}, not {expected} as expected_last_seq says: read what was added,
    then append again.
    """


class WrongVersion(Conflict):
    """{what} {id!r} is at version {actual}, not {expected} as if_version says: read it, then try again."""


class KeyReused(Conflict):
    """The idempotency key {key!r} was used before for other content: a retry must repeat its
    request exactly, and a new request needs a new key.
    """

    status = 422


class ModelError(RetainError):
    """The model {model!r} failed: {problem}. It changed nothing."""

    status = 502
    exit_code = 7


class NoModel(ModelError):
    """No model is set for this. Name one with the settings `model` and `base_url`{instead}."""

    status = 503


class ModelUnavailable(ModelError):
    """The model {model!r} does not answer: {problem}. It changed nothing; it can be tried again."""

    status = 503


class BadAnswer(ModelError):
    """The model {model!r} gave an answer that cannot be used: {problem}. It changed nothing."""


class PartlyAnswered(ModelError):
    """The model {model!r} answered {good} of {calls} questions, and what came of these is kept. What went wrong
    first: {problem}.
    """


class SettingsError(RetainError):
    """{where}: {problem}."""

    exit_code = 6


class StorageError(RetainError):
    """The database failed: {problem}."""

    status = 503
    exit_code = 5

    @property
    def public(self) -> str:
        """The same without where the database is and what it said: that is the operator's business, and in the log."""
        template = inspect.cleandoc(type(self).__doc__ or "").replace("\n", " ")
        if "{path}" in template:
            return "The database cannot be used. The server's log says why."
        said = template.replace(": {problem}", "").format(**self.details)
        return f"{said} The server's log says why." if "{problem}" in template else said


class Busy(StorageError):
    """The database is busy: {problem}. Try again."""


class Full(StorageError):
    """The disk is nearly full: {problem}. Nothing was written and reading still works. Free some space, or run
    `retain purge --emergency`.
    """

    status = 507


class ReadOnly(StorageError):
    """The database is read-only: {problem}. Check the permissions of the file and its folder, or the server's
    role in replication.
    """


class Unreachable(StorageError):
    """The database cannot be reached: {problem}."""


class NoServer(Unreachable):
    """The server at {url} does not answer: {problem}. Check the address, and that `retain serve` runs there."""


class InDoubt(StorageError):
    """Nobody knows whether the write happened: {problem}. Messages that had an idempotency key can be sent again
    with it, and will be there once; for anything else, read first.
    """


class ReadTooLong(StorageError):
    """This read was stopped because it kept the write-ahead log from shrinking below {limit_mib} MiB. Read in
    smaller parts, or work on a copy made with `retain backup`.
    """


class Corrupt(StorageError):
    """The database is damaged: {problem}. Nothing was changed or deleted. Stop all writers, keep the file,
    and restore a backup (docs/guides/operations.md, "When a file is damaged").
    """

    status = 500


class NotOurs(StorageError):
    """{path} is not a retain database: {problem}. Point `database` at another file."""

    status = 500


class NetworkDrive(StorageError):
    """{path} is on a {filesystem} file system, where SQLite's locks do not hold and files get damaged. Use a local
    disk or PostgreSQL.
    """

    status = 500


class SchemaTooNew(StorageError):
    """The database has schema {found} and this retain knows schemas up to {known}: upgrade retain, or point it
    at another database.
    """

    status = 500


class SchemaTooOld(StorageError):
    """The schema is at {found}, and this role may not change it: run `retain migrate` with owner_database set to
    the address of the role that owns the tables.
    """

    status = 500
