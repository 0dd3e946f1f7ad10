"""All errors that memorist raises. The docstring of a class is the template of its message.

    MemoristError
    ├── Invalid               the input breaks a rule                     422
    │   └── TooLarge          the input is over a size limit              413
    ├── NotFound              it does not exist, or is not visible to you 404
    │   └── NoSection         a document has no such heading
    ├── EventsRemoved         the events are no longer stored             410
    ├── Unauthorized          no valid credential                         401
    │   └── Forbidden         the credential lacks the permission         403
    ├── NoIssuer              the token issuer's keys cannot be read      503
    ├── TooMany               over a rate limit                           429
    ├── Overloaded            the server is at capacity                   503
    ├── Conflict              the state does not allow it now             409
    │   ├── AlreadyExists
    │   ├── FileInUse         another run is writing a file of this name
    │   ├── OutOfOrder        `expected_last_seq` did not match
    │   ├── WrongVersion      `if_version` did not match
    │   └── KeyReused         an idempotency key was reused with other content
    ├── ModelError            a language model failed                     502
    │   ├── NoModel           no model is set                             503
    │   ├── ModelUnavailable  the model fails, or does not answer in time 503
    │   ├── BadAnswer         the model's answer cannot be used
    │   └── PartlyAnswered    some of several calls failed
    ├── SettingsError         the configuration cannot be used            500
    └── StorageError          the database failed                         503
        ├── Busy              locked, or no connection free: retry
        ├── Full              the disk is nearly full                     507
        ├── ReadOnly
        ├── Unreachable       no such server, no such file, connection lost
        │   └── NoServer      a client's memorist server does not answer
        ├── InDoubt           the connection was lost during a commit
        ├── ReadTooLong       a reader was stopped so that the log can shrink
        ├── Corrupt           damaged pages                               500
        │   └── CorruptRecord a damaged text of one record                500
        ├── NotOurs           the database of another program             500
        ├── OldDatabase       written under the former name of memorist   500
        ├── NetworkDrive      SQLite on a file system without locks       500
        ├── SchemaTooNew      written by a newer memorist                   500
        └── SchemaTooOld      a migration needs the owner's role          500

A message says what happened, why, and what to do. `status` is the HTTP status and `exit_code` the exit
status of the command line: 2 bad input, 3 not found, 4 conflict, 5 database, 6 settings, 7 model,
8 access. `details` are the values in the message; each is also an attribute of the error.
"""

from __future__ import annotations

import inspect
from typing import Any


def install_hint(extra: str) -> str:
    """Return how to install an extra."""
    return f"run `pip install 'memorist[{extra}]'`"


class MemoristError(Exception):
    """Something went wrong in memorist."""

    status = 500
    exit_code = 1

    details: dict[str, Any]

    def __init__(self, **details: Any) -> None:
        self.set_details(details)
        message = _template(type(self)).format(**details)
        hint = details.get("hint", "")
        super().__init__(f"{message} {hint}".rstrip())

    def set_details(self, details: dict[str, Any]) -> None:
        """Set the values in the message, each as an attribute too."""
        self.details = details
        for name, value in details.items():
            setattr(self, name, value)

    @property
    def public(self) -> str:
        """The message for clients over the network."""
        return str(self)

    def copy(self) -> MemoristError:
        """Return a copy of the error, for another thread to raise."""
        return type(self)(**self.details)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.details)


def _template(kind: type[MemoristError]) -> str:
    """Return the docstring with each paragraph on one line."""
    paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    return "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def _rebuild(kind: type[MemoristError], details: dict[str, Any]) -> MemoristError:
    return kind(**details)


class Invalid(MemoristError):
    """{field}: {problem}."""

    field: str
    problem: str

    status = 422
    exit_code = 2


class TooLarge(Invalid):
    """{field}: {size} {unit} is over the limit of {limit}."""

    size: int | str
    unit: str
    limit: int

    status = 413


class NotFound(MemoristError):
    """There is no {what} {id!r}."""

    what: str
    id: str

    status = 404
    exit_code = 3


class NoSection(NotFound):
    """There is no section {id!r}: {has}."""


class EventsRemoved(MemoristError):
    """Events after number {after} are no longer stored: they are kept for {days} days. Read the current data, and
    continue without `after`, or with `after=0` from the oldest event.
    """

    after: int
    days: int

    status = 410
    exit_code = 3


class Unauthorized(MemoristError):
    """Authentication failed: {problem}. Send a key as `Authorization: Bearer mst_…`; create one with `memorist keys add NAME`."""

    status = 401
    exit_code = 8


class Forbidden(Unauthorized):
    """This is not allowed: {problem}."""

    status = 403


class NoIssuer(MemoristError):
    """The token issuer's keys cannot be read at the moment. Try again in {seconds} s."""

    seconds: int

    status = 503
    exit_code = 8


class TooMany(MemoristError):
    """Too many requests: {problem}. Try again in {seconds} s."""

    seconds: int

    status = 429
    exit_code = 8


class Overloaded(MemoristError):
    """Server at capacity: {problem}. Retry in {seconds} s."""

    seconds: int

    status = 503
    exit_code = 5


class Conflict(MemoristError):
    """{problem}."""

    status = 409
    exit_code = 4


class AlreadyExists(Conflict):
    """The {what} {id!r} exists already; edit it, or choose another name."""

    what: str
    id: str


class FileInUse(Conflict):
    """Another run is writing {path}. Wait until it has finished, or choose another name."""

    path: str


class OutOfOrder(Conflict):
    """The session's last message is {actual}, not {expected} as expected_last_seq says: read what was added,
    then append again.
    """

    actual: int
    expected: int


class WrongVersion(Conflict):
    """{what} {id!r} is at version {actual}, not {expected} as if_version says: read it, then try again."""

    actual: int
    expected: int


class KeyReused(Conflict):
    """The idempotency key {key!r} was used before for other content: a retry must repeat its
    request exactly, and a new request needs a new key.
    """

    key: str

    status = 422


class ModelError(MemoristError):
    """The model {model!r} failed: {problem}. No result was saved."""

    model: str
    problem: object

    status = 502
    exit_code = 7

    def __init__(self, **details: Any) -> None:
        super().__init__(**details)
        changes = details.get("changes", 0)
        if changes:
            notice = f"Its tools had already made {changes} change(s), which are kept"
            self.args = (str(self).replace("No result was saved", notice),)

    def after_changes(self, changes: int) -> ModelError:
        """Return the error for a turn whose tool calls changed something before the model failed."""
        return type(self)(**self.details, changes=changes)


class NoModel(ModelError):
    """No model is set for this. Name one with the settings `model` and `base_url`{instead}."""

    status = 503


class ModelUnavailable(ModelError):
    """The model {model!r} does not answer: {problem}. No result was saved; try again."""

    status = 503


class BadAnswer(ModelError):
    """The model {model!r} gave an answer that cannot be used: {problem}. No result was saved."""


class PartlyAnswered(ModelError):
    """The model {model!r} answered {good} of {calls} questions, and those results are kept. The first
    error: {problem}.
    """

    good: int
    calls: int


class SettingsError(MemoristError):
    """{where}: {problem}."""

    where: str
    problem: object

    exit_code = 6


class StorageError(MemoristError):
    """The database failed: {problem}."""

    problem: object

    status = 503
    exit_code = 5

    @property
    def public(self) -> str:
        """The message without addresses and paths; those are only in the server's log."""
        template = _template(type(self))
        if "{path}" in template:
            return "The database cannot be used. The server's log says why."
        message = template.replace(": {problem}", "").format(**self.details)
        return f"{message} The server's log says why." if "{problem}" in template else message


class Busy(StorageError):
    """The database is busy: {problem}. Try again."""


class Full(StorageError):
    """The disk is nearly full: {problem}. Nothing was written and reading still works. Free some space, or run
    `memorist purge --emergency`.
    """

    status = 507


class ReadOnly(StorageError):
    """The database is read-only: {problem}. Check the permissions of the file and its folder, or the server's
    role in replication.
    """


class Unreachable(StorageError):
    """The database cannot be reached: {problem}."""


class NoServer(Unreachable):
    """The server at {url} does not answer: {problem}. Check the address, and that `memorist serve` runs there."""


class InDoubt(StorageError):
    """It is unknown whether the write was committed: {problem}. Messages that had an idempotency key can be sent again
    with it and are stored only once; for any other write, read first.
    """


class ReadTooLong(StorageError):
    """This read was stopped because it kept the write-ahead log from shrinking below {limit_mib} MiB. Read in
    smaller parts, or work on a copy made with `memorist backup`.
    """


class Corrupt(StorageError):
    """The database is damaged: {problem}. Nothing was changed or deleted. Stop all writers, keep the file,
    and restore a backup (docs/guides/operations.md, "When a file is damaged").
    """

    status = 500


class CorruptRecord(Corrupt):
    """The text of {record} is damaged. Run `memorist verify` to list all damage. Then restore a
    backup (docs/guides/operations.md, "When a file is damaged"), or remove the record.
    """

    record: str

    def set_details(self, details: dict[str, Any]) -> None:
        """Set the record, and from it the problem."""
        super().set_details(details)
        self.problem = f"the text of {details.get('record', 'a record')} is damaged"

    @property
    def public(self) -> str:
        """The message; the record is one of the caller's own tenant."""
        return str(self)


class NotOurs(StorageError):
    """{path} is not a memorist database: {problem}. Point `database` at another file."""

    status = 500


class OldDatabase(StorageError):
    """{name} is a database of retain, as memorist was called before its first release.

    Export it with the last retain: `retain export FILE`.

    Then import the file into a new database: `memorist import FILE`.
    """

    name: str

    status = 500


class NetworkDrive(StorageError):
    """{path} is on a {filesystem} file system, where SQLite's locks do not hold and files get damaged. Use a local
    disk or PostgreSQL.
    """

    status = 500


class SchemaTooNew(StorageError):
    """The database has schema {found}, and this version of memorist supports schemas up to {known}: upgrade
    memorist, or point it at another database.
    """

    found: int
    known: int

    status = 500


class SchemaTooOld(StorageError):
    """The schema is at version {found}, and this role may not change it: run `memorist migrate up` with owner_database set to
    the address of the role that owns the tables.
    """

    found: int

    status = 500
