"""What judging costs, as ratios within one run: a slow machine does not matter."""

from collections.abc import Callable

import pytest

from bench.judge import cpu_ms, prepared, with_megatron_tail
from watchkeeper.domain.rules.decide import decide

MEGATRON_MAX = 4.0
"""It costs twice as much, for three times the bytes; each line read by itself made it thirty."""

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("bench")]


def test_a_tail_whose_lines_all_count_nan_iterations_costs_little_more_than_bars() -> None:
    history, command = prepared(2_000)
    megatron = with_megatron_tail(command)

    def judged(told: Callable[[], object]) -> float:
        return cpu_ms(told, 30)[0]

    plain = judged(lambda: decide(history.run, command))
    tailed = judged(lambda: decide(history.run, megatron))
    assert tailed < MEGATRON_MAX * plain
