"""Each result of a verification has a sentence."""

from watchkeeper.projections.verification import WORDS, Kind, Problem, sentence_of


def test_each_kind_has_a_sentence() -> None:
    assert set(WORDS) == set(Kind)
    for kind in Kind:
        sentence = sentence_of(Problem(kind, "tiny", 7, "weeks@1", "cut off", 2))
        assert "{" not in sentence
        assert "None" not in sentence


def test_a_differing_view_names_its_rows_and_the_command() -> None:
    problem = Problem(Kind.VIEW_DIFFERS, "", 70, "weeks@1", "2026-W01", 1)
    assert sentence_of(problem) == (
        "view weeks@1: 1 row differs from the ledger at event 70, first '2026-W01': "
        "`watchkeeper ledger rebuild weeks`"
    )
