"""Recognises a program's own errors, which prove no infrastructure failure.

For example, `AssertionError: 429 rows have no label` is not about HTTP. A retry would repeat the
bug. So the message of such an error never suggests a retry.
"""

import re

from watchkeeper.domain.reading.signatures.model import Label, Rank, Signature, outlook_of
from watchkeeper.domain.values.causes import Outlook

_STRICT = (
    r"AssertionError|ValueError|KeyError|TypeError|IndexError|NameError|AttributeError"
    r"|ZeroDivisionError|UnboundLocalError|NotImplementedError|LookupError|ArithmeticError"
    r"|OverflowError|FloatingPointError|StopIteration|StopAsyncIteration|RecursionError"
    r"|Unicode(?:Encode|Decode|Translate)?Error|SyntaxError|IndentationError|TabError|ImportError"
    r"|ModuleNotFoundError|BufferError|ValidationError"
)
"""Python's exceptions that only a program's own mistake or its input raises."""

_LOOSE = r"RuntimeError|Exception|Error|SystemExit"
"""Exceptions that libraries raise for many reasons, including failed machines and networks."""

_RAISED = re.compile(
    rf"(?:(?<![\w.])|(?<=\\n))(?:builtins\.)?(?:(?P<strict>{_STRICT})|(?:{_LOOSE}))\b(?=\)?:|\(|\s*$)"
)
_CHECKED = re.compile(
    r"\b(?:must (?:be|have|not|match|equal)|should (?:be|have|not)|expected|expects|flags?\b"
    r"|arguments?\b|parameters?\b|bool(?:ean)?\b|is not (?:a|an|in|one)\b|out of range"
    r"|unknown (?:key|option|field|state)|not supported)",
    re.IGNORECASE,
)
"""Words of a program's check of its own values."""

_WORD = re.compile(r"[A-Za-z]{2,}")
_PASSES = frozenset({Outlook.RETRY, Outlook.RETRY_ONCE})
_LOOSE_WORDS_MIN = 2
"""A single word or number proves nothing in a message of a plain `RuntimeError`."""

_KEPT_WEAK = frozenset({Label.NETWORK, Label.COLLECTIVE_HANG, Label.CONTROLLER_FAILURE})
"""Libraries that raise a plain `RuntimeError` for these: torch.distributed, gloo, c10d, gRPC."""


def raised_at(line: str) -> re.Match[str] | None:
    """Return the place of a plain Python error's name in a line, or `None`."""
    return _RAISED.search(line)


def claims_transient(signature: Signature) -> bool:
    """Return whether a signature claims that a retry can work."""
    return outlook_of(signature) in _PASSES and signature.label is not Label.BENIGN


def is_error_message(signature: Signature, search: re.Pattern[str], line: str, raised: int) -> bool:
    """Return whether a retry claim rests only on the message of such an error.

    Args:
        signature: The signature with the claim.
        search: Its expression.
        line: The line.
        raised: Where the error's name begins, by `raised_at`.
    """
    if not claims_transient(signature):
        return False
    if raised and search.search(line[:raised]):
        return False
    found = _RAISED.match(line, raised)
    if found is None:
        return False
    if found["strict"] or _CHECKED.search(line, found.end()):
        return True
    messages = [one[0] for one in search.finditer(line, found.end())]
    if not messages:
        across = search.search(line, raised)
        messages = [line[found.end() : across.end()]] if across else []
    # Digits, or a word such as `preempted`, may be a name in the program.
    if not any(len(_WORD.findall(one)) >= _LOOSE_WORDS_MIN or _is_named(one) for one in messages):
        return True
    return signature.rank < Rank.SPECIFIC and signature.label not in _KEPT_WEAK


def _is_named(said: str) -> bool:
    """Return whether a word is a name that only a library uses, such as `ncclRemoteError`."""
    return (
        re.search(r"[a-z][A-Z]|[A-Z]{3}\w*_[A-Z]|[A-Z]{4,} ?:|Errno \d|\bE[A-Z]{5,}\b", said)
        is not None
    )
