"""Cuts an excerpt into the word pieces that a sentence model knows (WordPiece, as BERT has it).

Hugging Face's `tokenizers` does the same, and would bring a client of its hub and what that needs
for what is a loop here; who learns (tools/train_sentence_model.py) cuts with this, too.
"""

import re
import unicodedata
from collections.abc import Mapping

from watchkeeper.domain.triage.signatures.prefixes import bare

PIECES_MAX = 128
"""Of a longer text the begin and the end are read; more pieces read held-back texts no better."""

HEAD = 40
"""So many pieces of a longer text are its first ones."""

WORD_MAX = 60
"""A longer word says nothing; it is one unknown piece."""

CHARACTERS_MAX = 8_000

BEGIN, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")
_NUMBER = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")
_TIME = re.compile(r"0(?:[-:.,t ]0)+")
_WORD = re.compile(r"[^\W_]+|[^\w\s]")


def evened(text: str) -> str:
    """Return a text as one line in small letters, words parted, numbers and times equal.

    What stands before its lines, such as a time and a level, is left out.
    """
    lines = " ; ".join(bare(line) for line in text[:CHARACTERS_MAX].split("\n"))
    spaced = _CAMEL.sub(" ", lines).lower()
    plain = unicodedata.normalize("NFD", _TIME.sub("0", _NUMBER.sub("0", spaced)))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def pieces_of(text: str, places: Mapping[str, int]) -> list[int]:
    """Return the places of a text's pieces, begin and end marked; at most `PIECES_MAX`.

    Args:
        text: An excerpt, as people paste it.
        places: Each known piece's place; one that goes on with a word begins with `##`.
    """
    unknown = places[UNKNOWN]
    found: list[int] = []
    for word in _WORD.findall(evened(text)):
        pieces = _cut(word, places)
        # A bar of thirty blocks says what one says.
        if pieces != [unknown] or found[-1:] != [unknown]:
            found += pieces
    room = PIECES_MAX - 2
    if len(found) > room:
        found = found[:HEAD] + found[HEAD - room :]
    return [places[BEGIN], *found, places[END]]


def _cut(word: str, places: Mapping[str, int]) -> list[int]:
    """Cut a word into its longest known pieces, from the left; unknown where one is not known."""
    whole = places.get(word)
    if whole is not None:
        return [whole]
    if len(word) > WORD_MAX:
        return [places[UNKNOWN]]
    found: list[int] = []
    begin = 0
    while begin < len(word):
        mark = "##" if begin else ""
        for end in range(len(word), begin, -1):
            piece = places.get(mark + word[begin:end])
            if piece is not None:
                break
        else:
            return [places[UNKNOWN]]
        found.append(piece)
        begin = end
    return found
