"""Signatures: the known messages, one data file for each family."""

from watchkeeper.domain.reading.signatures.loading import signatures_of
from watchkeeper.domain.reading.signatures.model import Signature

__all__ = ["CAUSES", "GUARDS", "MARKS", "SIGNATURES"]

GUARDS: tuple[Signature, ...] = signatures_of("harmless_words", "harmless_lines")
"""Signatures of harmless text in a line; read before everything else."""

CAUSES: tuple[Signature, ...] = signatures_of(
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
"""Signatures that name a cause, or answer one.

If several of one rank match a line, the first in this order counts.
"""

MARKS: tuple[Signature, ...] = signatures_of("marks")
"""Signatures of a failure without a cause."""

SIGNATURES: tuple[Signature, ...] = (*GUARDS, *CAUSES, *MARKS)
"""All signatures."""
