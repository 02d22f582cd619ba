"""How an excerpt is cut into the pieces of words that a sentence model knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.triage.word_pieces import HEAD, PIECES_MAX, WORD_MAX, evened, pieces_of

KNOWN = (
    "[CLS]", "[SEP]", "[UNK]", "run", "runtime", "##time", "##s", "error", "cuda", "out", "of",
    "memory", ":", "0", "/", "b", "##u", "##g", "naive", ";", ".", "!", "a", "z",
)  # fmt: skip
PLACES = {piece: at for at, piece in enumerate(KNOWN)}


def named(text: str) -> list[str]:
    """Return a text's pieces by name, without the marks of begin and end."""
    found = [KNOWN[at] for at in pieces_of(text, PLACES)]
    assert (found[0], found[-1]) == ("[CLS]", "[SEP]")
    return found[1:-1]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("run", ["run"]),
        # The longest piece that is known, from the left.
        ("runtimes", ["runtime", "##s"]),
        ("runs", ["run", "##s"]),
        ("bug", ["b", "##u", "##g"]),
        # A word of which a part is not known is not known.
        ("runx", ["[UNK]"]),
        ("errors!", ["error", "##s", "!"]),
        ("RuntimeError: CUDA out_of_memory",
         ["runtime", "error", ":", "cuda", "out", "of", "memory"]),
        ("17/23", ["0", "/", "0"]),
        ("0xdeadbeef run 4096 run a1b2c3d4e5", ["0", "run", "0", "run", "0"]),
        ("2026-05-01 10:11:12.5 run", ["run"]),
        ("run 10:11:12.5 10.0.0.1:8080", ["run", "0"]),
        ("na\u00efve", ["naive"]),
        ("run\nerror", ["run", ";", "error"]),
        # A bar of blocks is one thing that is not known.
        ("\u2588\u2588\u2588\u2589 run \u2588", ["[UNK]", "run", "[UNK]"]),
        ("z" * WORD_MAX, ["[UNK]"]),
        ("run" * WORD_MAX, ["[UNK]"]),
        ("[rank3]: 2026-05-01T10:11:12.5Z cuda error", ["cuda", "error"]),
    ],
)  # fmt: skip
def test_a_text_is_cut_into_known_pieces(text: str, pieces: list[str]) -> None:
    assert named(text) == pieces


def test_of_a_longer_text_begin_and_end_are_read() -> None:
    room = PIECES_MAX - 2
    found = named("run " * 100 + "error " * 100)
    assert len(found) == room
    assert found == ["run"] * HEAD + ["run"] * 0 + ["error"] * (room - HEAD)
    assert len(named("run " * room)) == room


@given(st.text(max_size=2_000))
def test_any_text_has_pieces_and_never_too_many(text: str) -> None:
    found = pieces_of(text, PLACES)
    assert 2 <= len(found) <= PIECES_MAX
    assert set(found) <= set(PLACES.values())
    assert evened(text) == evened(text).lower()
