"""The known messages: one data file for each family, read at the first use."""

from functools import cache

from watchkeeper.domain.reading.signatures.loading import signatures_of
from watchkeeper.domain.reading.signatures.model import Signature

__all__ = ["causes", "guards", "marks", "signatures"]


@cache
def guards() -> tuple[Signature, ...]:
    """Return the signatures of harmless text, which are read before all others."""
    return signatures_of("harmless_words", "harmless_lines")


@cache
def causes() -> tuple[Signature, ...]:
    """Return the signatures that name a cause, or that cancel one.

    If several signatures of one rank match a line, the first one counts.
    """
    return signatures_of(
        "answers",
        "nvidia",
        "tpu",
        "hosts",
        "capacity",
        "collectives",
        "work",
        "services",
        "network",
        "code",
    )


@cache
def marks() -> tuple[Signature, ...]:
    """Return the signatures of a failure without a cause."""
    return signatures_of("marks")


def signatures() -> tuple[Signature, ...]:
    """Return all signatures."""
    return (*guards(), *causes(), *marks())
