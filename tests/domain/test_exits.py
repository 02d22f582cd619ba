from tests.every_row import every_row
from watchkeeper.domain.values.exits import exit_facts


@every_row(
    ("code", "exit_code", "signal"),
    [
        (None, None, None),
        (0, 0, None),
        (1, 1, None),
        (128, 128, None),
        (129, None, 1),
        (137, None, 9),
        (143, None, 15),
        (192, None, 64),
        (193, 193, None),
        (255, 255, None),
        (-9, None, 9),
        (-15, None, 15),
    ],
)
def test_an_exit_is_a_code_or_a_signal(
    code: int | None, exit_code: int | None, signal: int | None
) -> None:
    assert exit_facts(code) == (exit_code, signal)
