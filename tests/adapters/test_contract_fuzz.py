"""Files that hold anything at all: a contract or bad input, and nothing else ever escapes."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.adapters.contract_texts import VALID, VALID_TOML, complaint, read
from watchkeeper.adapters.bad_input import (
    BadInput,
    problem_rows,
)
from watchkeeper.domain.values.contract.contract import Contract

FUZZ = settings(
    deadline=timedelta(seconds=5),
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)


def outcome(folder: Path, text: str | bytes, name: str) -> BadInput | Contract:
    try:
        return read(folder, text, name)
    except BadInput as error:
        return error


def read_or_refuse(folder: Path, text: str | bytes, name: str) -> None:
    """Read a file that may hold anything: a contract or BadInput, told printably, in line order."""
    error = outcome(folder, text, name)
    if isinstance(error, Contract):
        return
    assert error.problems
    assert all(character.isprintable() or character == "\n" for character in str(error))
    lines = [problem.line for problem in error.problems if problem.line is not None]
    assert lines == sorted(lines)
    assert all(problem.line is None for problem in error.problems[len(lines) :])
    # An editor can go to each line that is named.
    content = text if isinstance(text, bytes) else text.encode()
    assert not lines or 1 <= lines[0] <= lines[-1] <= len(content.splitlines()) + 1
    json.dumps(problem_rows(error.problems))


SUFFIXES = st.sampled_from(["c.yaml", "c.toml"])


@FUZZ
@given(data=st.binary(max_size=300), name=SUFFIXES)
@example(data=b"\xef\xbb\xbf", name="c.toml")
def test_any_bytes_are_a_contract_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    read_or_refuse(tmp_path_factory.getbasetemp(), data, name)


SCRAPS = [
    *("a", "b: ", "- ", "? ", ": ", "[", "]", "{", "}", ",", "&a ", "*a", "!t ", "!!str ", "|\n"),
    *(">-\n", "'", '"', "\\", "\\x41", "\\UFFFFFFFF", "#", "\n", "\n  ", "\t", "---\n", "...\n"),
    *(
        "%YAML 1.2\n",
        "%YAML 1.3\n",
        "%TAG !e! tag:x,\n",
        "<<: ",
        "=",
        '"""',
        "'''",
        "[a]\n",
        "[[a]]\n",
        ".",
        "0x1",
        "1e999",
        "012",
    ),
    *("nan", ".inf", "null", "~", "2001-01-01", "T00:00:00Z", "true", "\u2028", "é", "run", "@"),
]


@FUZZ
@given(parts=st.lists(st.sampled_from(SCRAPS), max_size=40), name=SUFFIXES)
def test_any_scraps_of_syntax_are_a_contract_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], name: str
) -> None:
    read_or_refuse(tmp_path_factory.getbasetemp(), "".join(parts), name)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.sampled_from(["~/x", "$A", "origin", "15m", "9" * 30 + "d", "'", "2d", "no", "ray"]),
    ),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=5), st.sampled_from(["kind", "value", "url", "cadence"])),
            below,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


@FUZZ
@given(
    data=st.dictionaries(st.one_of(st.sampled_from(list(Contract.model_fields)), st.text()), JSON)
)
def test_any_values_under_any_keys_are_a_contract_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]
) -> None:
    # What JSON can hold, YAML can; a surrogate is escaped, and reaches the parser as one.
    read_or_refuse(tmp_path_factory.getbasetemp(), json.dumps(data), "c.yaml")


@FUZZ
@given(
    at=st.integers(0, len(VALID)),
    cut=st.integers(0, 30),
    scrap=st.one_of(st.sampled_from(SCRAPS), st.text(max_size=3)),
    name=SUFFIXES,
)
def test_a_damaged_contract_is_a_contract_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, scrap: str, name: str
) -> None:
    text = VALID if name == "c.yaml" else VALID_TOML
    damaged = (text[:at] + scrap + text[at + cut :]).encode(errors="surrogatepass")
    read_or_refuse(tmp_path_factory.getbasetemp(), damaged, name)


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
LONG_LAUGHS = f"a: &a '{'x' * 300_000}'\nb: [{', '.join(['*a'] * 300)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, LONG_LAUGHS])
def test_aliases_cannot_multiply_what_a_file_holds(tmp_path: Path, text: str) -> None:
    assert "expected at most 5000 values, with aliases filled in" in complaint(tmp_path, text)


MIB = 1 << 20
HOSTILE = {
    "open brackets": ("c.yaml", "[" * MIB),
    "open braces": ("c.yaml", "{" * MIB),
    "nested keys": ("c.yaml", "? " * (MIB // 2)),
    "many keys": ("c.yaml", "a: b\n" * (MIB // 5)),
    "many unknown keys": ("c.yaml", "".join(f"key{n}: {n}\n" for n in range(2400))),
    "line breaks": ("c.yaml", "\n" * MIB),
    "folded text": ("c.yaml", "a: >\n" + " x\n" * (MIB // 4)),
    "one long key": ("c.yaml", "? " + "k" * (MIB - 100) + "\n: 1\n"),
    "toml dotted keys": ("c.toml", "\n".join(f"b{n}.{'a.' * 98}c=1" for n in range(4800))),
    "toml lines in one text": ("c.toml", 'a = """\n' + "x\n" * (MIB // 2 - 10) + '"""\n'),
    "toml escapes before a dot": ("c.toml", 'a = "' + '\\"' * (MIB // 3) + "." * 101),
    "many unknown keys in toml": ("c.toml", "".join(f"key{n} = 1\n" for n in range(4900))),
    "toml tables": ("c.toml", "".join(f"[a{n}]\n" for n in range(90_000))),
}


SLOWEST = ("toml dotted keys", "many unknown keys in toml", "toml tables", "many unknown keys")


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.servers] if one in SLOWEST else []) for one in HOSTILE],
)
def test_no_file_takes_long(tmp_path: Path, name: str) -> None:
    started_s = time.process_time()
    read_or_refuse(tmp_path, HOSTILE[name][1], HOSTILE[name][0])
    assert time.process_time() - started_s < 20
