"""What the driver of a GPU reports: some of its codes are faults of a program, or mended."""

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.classify import CLAIM_CONFIDENCE_MIN
from watchkeeper.domain.reading.triage.log_verdict import triage_text
from watchkeeper.domain.values.causes import Outlook

XID = "NVRM: Xid (PCI:0000:9b:00): {}, pid=3, name=python"
TRACED = ("Traceback (most recent call last):", '  File "/srv/train/loop.py", line 88, in step')


@pytest.mark.parametrize("code", [48, 62, 64, 74, 79, 94, 95, 119, 140])
def test_a_broken_gpu_is_the_cause(code: int) -> None:
    found = triage_text("\n".join([XID.format(code), *TRACED, "KeyError: 'nll'"]))
    assert (found.label, found.outlook) == (Label.NODE_FAILURE, Outlook.RETRY)


@every_row("code", [13, 31, 43, 45, 63, 69, 92])
@every_row(
    ("error", "label"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", Label.CODE_BUG),
        ("KeyError: 'nll'", Label.CODE_BUG),
        ("torch.OutOfMemoryError: CUDA out of memory.", Label.HBM_OOM),
    ],
)
def test_beside_what_a_program_raised_it_is_collateral(code: int, error: str, label: Label) -> None:
    for lines in ([XID.format(code), *TRACED, error], [*TRACED, error, XID.format(code)]):
        assert triage_text("\n".join(lines)).label is label


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 69, 92])
def test_alone_it_is_a_hint_on_which_nothing_is_relaunched(code: int) -> None:
    [claim] = claims_in([XID.format(code)])
    assert claim.label == "node_failure"
    assert claim.confidence < CLAIM_CONFIDENCE_MIN


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("NVRM: Xid (PCI:0000:48:00): 31, pid=4021, name=python", "nvidia.xid-program"),
        ("NVRM: Xid (PCI:0000:9b:00): 43, pid=79, name=python", "nvidia.xid-program"),
        ("NVRM: Xid (PCI:0000:9b:00): 63, pid=120, name=python", "nvidia.xid-mended"),
        ("NVRM: Xid (PCI:0000:31:00): 79, pid=45, name=python", "nvidia.xid-fatal"),
        ("NVRM: Xid (PCI:0000:05:00): 13, on (GPC 8, TPC 0)", "nvidia.xid-program"),
        ("Xid error 31 detected on GPU 3", "nvidia.xid-program"),
        ("Xid error 79 detected on GPU 3", "nvidia.xid-fatal"),
        ("xid=140 msg=unrecovered", "nvidia.xid-fatal"),
    ],
)
def test_the_code_is_the_number_behind_the_device(line: str, rule: str) -> None:
    claims = claims_in([line])
    assert claims[0].signature == rule
    codes = {"nvidia.xid-program", "nvidia.xid-mended", "nvidia.xid-fatal"}
    assert codes & {one.signature for one in claims} == {rule}
