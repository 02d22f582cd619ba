"""One line without an end costs no more than its first places that look like a failure."""

from time import process_time

from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.log_verdict import triage_of

PIECE = 1 << 20


def test_a_line_of_24_megabytes_full_of_alarming_words_takes_seconds() -> None:
    data = b"error " * 4_000_000
    begun = process_time()
    scanner = Scanner()
    for start in range(0, len(data), PIECE):
        scanner.feed(data[start : start + PIECE])
    assert triage_of(scanner).label is Label.UNKNOWN
    assert process_time() - begun < 30


def test_lines_after_a_long_one_are_read_and_numbered() -> None:
    scanner = Scanner()
    scanner.feed(b"error " * 40_000 + b"\nRuntimeError: CUDA error: uncorrectable ECC error\n")
    found = triage_of(scanner)
    assert found.label is Label.NODE_FAILURE
    assert found.evidence[0].number == 2


def test_a_failure_late_in_a_long_line_is_read_where_little_else_alarms() -> None:
    scanner = Scanner()
    scanner.feed(b"x " * 100_000 + b"RuntimeError: CUDA error: uncorrectable ECC error\n")
    assert triage_of(scanner).label is Label.NODE_FAILURE
