"""A claim about what broke: a cause, the signature or fact that says so, and its line."""

from typing import Annotated

from pydantic import Field

from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.values import Value

CLAIMS_MAX = 8
"""Claims kept in a check: the ones that a reader would weigh first."""


class CauseClaim(Value):
    """What one line of a log, or one fact about an end, says about the cause.

    Attributes:
        label: A class of failure, such as `hbm_oom`.
        signature: The signature that matched, or the fact.
        outlook: Whether trying again makes sense, by this claim alone.
        confidence: 0 to 1: how far the line settles the cause.
        line: What it rests on, scrubbed, at most 300 characters.
        task: The task or rank that printed it; empty where nobody tells.
    """

    label: str
    signature: str
    outlook: Outlook
    confidence: float
    line: Annotated[str, Field(max_length=300)] = ""
    task: str = ""
