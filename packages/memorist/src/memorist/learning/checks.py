"""Validate proposed facts: their form, and that they contain no instructions to an agent."""

from __future__ import annotations

from collections.abc import Sequence

from memorist.base import canonical
from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.fact import MAX_STATEMENT_CHARACTERS, MAX_SUBJECT_CHARACTERS
from memorist.learning.guards import names_a_secret
from memorist.learning.proposal import Proposal
from memorist.learning.source_message import SourceMessage
from memorist.text.instructions import orders_agent, reads_like_instruction
from memorist.text.warning_signs import find_warning_signs

_FIRST_PERSON = LazyPattern(r"(?:I|I['’]m|My|We|Our|Ich|Meine?|Wir|Unsere?)\s")
_SIGNS_IN_USER_TURNS = frozenset({"role", "placeholder", "image", "invisible", "encoded", "secret"})
"""Signs that no fact has. A user may also give instructions; agents, tools and documents may not."""


class Refused(Exception):
    """Raised with the reason why a proposed fact is not used."""


def check(proposal: Proposal, cited: Sequence[SourceMessage]) -> Proposal:
    """Return a proposal if it is acceptable; raise `Refused` with the reason otherwise.

    cited: the messages that it comes from
    """
    _check_form(proposal)
    if is_instruction(proposal, cited):
        raise Refused("instruction")
    if names_a_secret(f"{proposal.statement} {proposal.object}"):
        raise Refused("secret")
    return proposal


def _check_form(proposal: Proposal) -> None:
    """Raise `Refused` unless a proposal is a statement about somebody, with possible dates."""
    if not canonical.is_visible(proposal.statement):
        raise Refused("blank")
    subject = proposal.subject.casefold().removeprefix("the ")
    if not canonical.is_visible(subject) or subject in ("agent", "assistant"):
        raise Refused("about nobody")
    if proposal.statement.rstrip().endswith("?"):
        raise Refused("question")
    if _FIRST_PERSON.match(proposal.statement):
        raise Refused("first person")
    if len(proposal.statement) > MAX_STATEMENT_CHARACTERS:
        raise Refused("too long")
    names = (proposal.subject, proposal.alias, proposal.predicate, proposal.object)
    if max(map(len, names)) > MAX_SUBJECT_CHARACTERS:
        raise Refused("too long")
    start = proposal.valid_from
    end = proposal.valid_to
    if start is not None and end is not None and end < start:
        raise Refused("bad date")


def is_instruction(proposal: Proposal, cited: Sequence[SourceMessage]) -> bool:
    """Return whether a proposal tells an agent what to do.

    A user may say how to be answered; nobody may say what to ignore or which tool to call, and an
    agent, an import or a document may give no instruction at all.
    """
    text = f"{proposal.subject}\n{proposal.statement}\n{proposal.object}"
    if orders_agent(text):
        return True
    signs = set(find_warning_signs(text))
    if all(turn.source == "user" and not turn.is_document for turn in cited):
        return bool(signs & _SIGNS_IN_USER_TURNS)
    return bool(signs) or reads_like_instruction(text)
