"""`judge`: what the watch would make of an observation, for programs."""

import json
import os
from collections.abc import Iterator
from typing import IO, Any

import click

from watchkeeper.adapters.judge_lines import Answer, BadLine, answer_line
from watchkeeper.domain.judging import Judged
from watchkeeper.domain.progress import render_progress
from watchkeeper.domain.secrets import Scrubber, known_secrets
from watchkeeper.domain.state import contract_of

LINE_MAX = 64 * 1024 * 1024
"""Bytes of one line; an observation with 10,000 points of 30 metrics has about 5 MB."""

EXIT_BAD_INPUT = 4


@click.command()
@click.option(
    "--jsonl",
    "file",
    required=True,
    type=click.File("rb"),
    metavar="FILE|-",
    help="One object on each line; - for standard input.",
)
def judge(file: IO[bytes]) -> int:
    """Judge observations as the watch would, and print one line for each.

    A line holds id, observation, and where they are known contract, history and launched_at. What
    is wrong with a line is told on standard error; the others are answered, and the exit code is 4.
    """
    code = 0
    # The marks of secrets hold for this command only: no home is needed.
    scrubber = Scrubber(os.urandom(32), known_secrets(os.environ))
    for number, line in _lines(file):
        try:
            if line is None:
                raise BadLine(f"longer than {LINE_MAX} bytes; expected one object on each line")
            answer = answer_line(line.decode(), scrubber)
        except UnicodeDecodeError as error:
            click.echo(f"line {number}: byte {error.start}: expected UTF-8", err=True)
            code = EXIT_BAD_INPUT
        except BadLine as error:
            for problem in error.problems:
                click.echo(f"line {number}: {problem}", err=True)
            code = EXIT_BAD_INPUT
        else:
            # At once: whoever asks line by line waits for it.
            click.echo(json.dumps(row_of(answer), ensure_ascii=False))
    return code


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not empty with its number; none for one that is too long."""
    number = 0
    while line := file.readline(LINE_MAX):
        number += 1
        if line.endswith(b"\n") or len(line) < LINE_MAX:
            if line.strip():
                yield number, line
            continue
        while not line.endswith(b"\n") and line:
            line = file.readline(LINE_MAX)
        yield number, None


def row_of(answer: Answer) -> dict[str, Any]:
    """Return what is written for a line; see docs/judgement.md."""
    judged = answer.judged
    check, decision, failure = judged.check, judged.decision, judged.failure
    new = {found.kind for found in judged.opened}
    asked = judged.asked
    told = bool(judged.opened or judged.asked or decision is not None or failure is not None)
    return {
        "id": answer.name,
        "health": check.health.value,
        "because": check.because,
        "progress": _progress(judged),
        "findings": [
            {
                "kind": found.kind,
                "rule": found.rule,
                "severity": found.severity.value,
                "summary": found.summary,
                "evidence": list(found.evidence),
                "new": found.kind in new,
            }
            for found in _findings(judged)
        ],
        "cleared": [found.kind for found in judged.cleared],
        "expected": list(check.expected),
        "quiet": check.liveness.quiet,
        "failure": failure and failure.model_dump(mode="json", include=_FAILURE),
        "decision": decision.action.value if decision is not None else "none",
        "rule": decision.rule if decision is not None else "",
        "why": decision.because if decision is not None else "",
        "resume_step": decision.resume_step if decision is not None else None,
        "escalate": bool(asked),
        "notify": told,
        "asks": [{"question": one.name, "rule": one.rule, "asks": one.asks} for one in asked],
        "next_check": check.next_due.isoformat(),
    }


_FAILURE = {"cause", "outlook", "fingerprint", "evidence"}


def _findings(judged: Judged) -> list[Any]:
    # One that ended with its instance in this very check is told as well: it is why.
    known = judged.run.findings
    return [*known.values(), *(found for found in judged.opened if found.kind not in known)]


def _progress(judged: Judged) -> dict[str, Any] | None:
    seen = judged.check.progress
    if seen is None:
        return None
    whole = contract_of(judged.run).final_step.known
    return {
        "step": seen.step,
        "uncertainty": seen.uncertainty,
        "source": seen.source,
        "text": render_progress(seen.step, seen.uncertainty, whole),
    }
