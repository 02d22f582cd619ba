import re

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from watchkeeper.projections.quoting import LINE_MAX, code, cut, one_line, prose


@drawn(st.text())
def test_quoted_text_is_one_line_of_characters_that_are_shown(text: str) -> None:
    for quoted in (one_line(text), code(text), prose(text)):
        assert len(quoted.splitlines()) <= 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", quoted)


@drawn(st.text(alphabet="`ab ", min_size=1))
def test_no_run_of_backticks_inside_closes_the_quote(text: str) -> None:
    quoted = code(text)
    if quoted == "(empty)":
        return
    fence = re.match(r"`+", quoted)
    assert fence is not None
    inner = quoted[len(fence[0]) : -len(fence[0])]
    assert quoted.endswith(fence[0])
    assert fence[0] not in re.findall(r"`+", inner)


@drawn(st.text(alphabet="`<[]*\\ab _"))
def test_prose_opens_no_tag_link_or_emphasis_and_leaves_no_quote_open(text: str) -> None:
    assert not active(prose(text)), prose(text)


def active(line: str) -> str:
    """Return the characters that mean something to a Markdown reader, as CommonMark scans."""
    found, place = "", 0
    while place < len(line):
        run = re.match(r"`+", line[place:])
        if run is not None:
            closing = re.search(rf"(?<!`){run[0]}(?!`)", line[place + run.end() :])
            if closing is None:
                return found + run[0]
            place += run.end() + closing.end()
        elif line[place] == "\\":
            place += 2
        else:
            found += line[place] if line[place] in "<[]*" else ""
            place += 1
    return found


def test_the_scanner_of_this_test_sees_markup() -> None:
    assert active("a <b> `<c>` \\<d `e") == "<`"


@pytest.mark.parametrize("length", [LINE_MAX - 1, LINE_MAX, LINE_MAX + 1])
def test_a_long_line_is_cut_with_a_mark(length: int) -> None:
    quoted = code("x" * length)
    assert len(quoted) == min(length, LINE_MAX) + 2
    assert quoted.endswith("…`") is (length > LINE_MAX)


def test_a_cut_keeps_what_fits() -> None:
    assert (cut("abc", 3), cut("abcd", 3)) == ("abc", "ab…")


def test_joined_emoji_stay_joined() -> None:
    assert one_line("a 👩\u200d🚀 b") == "a 👩\u200d🚀 b"
