"""`tools judge`: how the watch would judge an observation, for programs."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.json_lines import answer_each, lines_option, opened
from watchkeeper.adapters.judge.lines import Answer, answer_line
from watchkeeper.domain.rules.ends.claim_strength import cause_claim, outlook_claim
from watchkeeper.domain.rules.whatif.judging import (
    Judged,
    escalates,
    health_of,
    notifies,
    reason_of,
)
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.values.check import render_progress
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, known_secrets

LINE_MAX = 64 * 1024 * 1024
"""Most bytes of one line. An observation with 10,000 points of 30 metrics has about 5 MB."""

EXIT_BAD_INPUT = 4


@click.command()
@lines_option("One JSON object per line.", required=True)
def judge(lines: Path) -> int:
    """Judge observations as the watch does, and print one answer per line.

    A line has id and observation, and optionally contract, history and launched_at. Bad lines are
    reported on standard error. The other lines are answered, and the exit code is 4.
    """
    # The key for secret marks is valid only for this command, so no home is needed.
    scrubber = Scrubber(os.urandom(32), known_secrets(os.environ))
    with ExitStack() as stack:
        bad = answer_each(
            opened(lines, stack, "watchkeeper tools judge --jsonl"),
            LINE_MAX,
            lambda line: row_of(answer_line(_text(line), scrubber)),
            "expected one JSON object per line",
        )
    return EXIT_BAD_INPUT if bad else 0


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLine(f"byte {error.start}: expected UTF-8") from error


def row_of(answer: Answer) -> dict[str, Any]:
    """Return the output row for an answer. See docs/how-to/judge.md."""
    judged = answer.judged
    check, decision, failure = judged.check, judged.remains, judged.failure
    new = {found.kind for found in judged.opened}
    return {
        "id": answer.name,
        "health": health_of(judged).value,
        "because": reason_of(judged),
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
            for found in judged.findings
        ],
        "cleared": [found.kind for found in judged.cleared],
        "expected": list(check.expected),
        "quiet": check.liveness.quiet,
        "failure": failure and _failure(failure),
        "decision": decision.action.value if decision is not None else "none",
        "rule": decision.rule if decision is not None else "",
        "why": decision.because if decision is not None else "",
        "decided_now": decision is not None and decision is judged.decision,
        "resume_step": decision.resume_step if decision is not None else None,
        "escalate": escalates(judged),
        "notify": notifies(judged),
        "asks": [
            {"question": one.name, "rule": one.rule, "asks": one.asks} for one in judged.asked
        ],
        "next_check": check.next_due.isoformat(),
    }


_FAILURE = {"cause", "outlook", "fingerprint", "evidence"}


def _failure(failure: FailureClassified) -> dict[str, Any]:
    claims = {"cause": cause_claim(failure), "outlook": outlook_claim(failure)}
    rows = {
        name: {"status": claim.status.value, "evidence": list(claim.evidence)}
        for name, claim in claims.items()
    }
    return failure.model_dump(mode="json", include=_FAILURE) | {"claims": rows}


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
        **({"doubt": seen.doubt} if seen.doubt else {}),
    }
