"""Cause and outlook of an end are two claims, each with what it rests on and how far it holds."""

import pytest

from watchkeeper.domain.rules.ends.claim_strength import Status, cause_claim, outlook_claim
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.values.causes import OUTLOOK_SAYS, Outlook

END = "the orchestrator says FAILED, exit code 1"
LINE = "hbm_oom (cuda.oom): torch.OutOfMemoryError: CUDA out of memory"
SILENT = "no traceback in the log's tail, and nobody on record stopped it"


def classified(
    cause: str,
    outlook: Outlook,
    *evidence: str,
    confidence: float = 0.0,
    rules: tuple[str, ...] = (),
) -> FailureClassified:
    return FailureClassified(
        instance="i1", cause=cause, outlook=outlook, fingerprint="0", evidence=evidence, step=None,
        confidence=confidence, rules=rules,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "cause", "cause_rests", "outlook", "outlook_rests"),
    [
        pytest.param(
            classified("node_failure", Outlook.RETRY, END, confidence=1.0),
            Status.PROVEN, (END,),
            Status.PROVEN, ("node_failure: a retry can work", END),
            id="exit facts",
        ),
        pytest.param(
            classified("host_oom", Outlook.ASK, END),
            Status.PROVEN, (END,),
            Status.PROVEN, ("host_oom: a person decides about a retry", END),
            id="the kernel's word on memory",
        ),
        pytest.param(
            classified("preemption", Outlook.RETRY, END, "a signal says preempted"),
            Status.PROVISIONAL, (END, "a signal says preempted"),
            Status.PROVISIONAL, ("preemption: a retry can work", END),
            id="a signal",
        ),
        pytest.param(
            classified("hbm_oom", Outlook.ASK, END, LINE, confidence=0.9, rules=("cuda.oom",)),
            Status.PROVISIONAL, (LINE,),
            Status.PROVISIONAL, ("cuda.oom: a person decides about a retry", LINE),
            id="a line",
        ),
        pytest.param(
            classified("unknown", Outlook.RETRY_ONCE, END, SILENT),
            Status.OPEN, (END, SILENT),
            Status.PROVISIONAL, (END, SILENT),
            id="a signal ended it, and nobody knows why",
        ),
        pytest.param(
            classified("unknown", Outlook.ASK, END),
            Status.OPEN, (END,),
            Status.OPEN, (END,),
            id="an exit code of its own",
        ),
    ],
)  # fmt: skip
def test_each_claim_has_its_own_status_and_evidence(
    failure: FailureClassified,
    cause: Status,
    cause_rests: tuple[str, ...],
    outlook: Status,
    outlook_rests: tuple[str, ...],
) -> None:
    first, second = cause_claim(failure), outlook_claim(failure)
    assert (first.says, first.status, first.evidence) == (failure.cause, cause, cause_rests)
    assert (second.says, second.status) == (failure.outlook.value, outlook)
    assert second.evidence == outlook_rests


def test_every_outlook_is_said_in_words() -> None:
    assert set(OUTLOOK_SAYS) == set(Outlook)
