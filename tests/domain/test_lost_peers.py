"""A task that ends by its own error is the cause; what its peers say of it is collateral."""

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.tracebacks import raised_in
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.values.causes import CauseClaim, Outlook

NCCL = "RuntimeError: NCCL error: remote process exited or there was a network error"
C10D = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version "
    "2.20.5"
)
REMOTE = (
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely."
)
STORE = (
    "RuntimeError: [0] is setting up NCCL communicator and retrieving ncclUniqueId from [1] via "
    "c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer"
)
GLOO = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error "
    "[10.0.0.3]:4242: Connection reset by peer"
)
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)"
JAX = (
    "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: The following tasks are unhealthy: "
    "/job:jax_worker/task:5 heartbeat timeout"
)
JAX_STOPPED = (
    "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped "
    "sending heartbeats): /job:jax_worker/replica:0/task:5"
)
TENSORFLOW = "UNAVAILABLE: Task /job:worker/replica:0/task:5 heartbeat timeout"
PEERS = [NCCL, C10D, REMOTE, STORE, GLOO, WATCHDOG, JAX, JAX_STOPPED, TENSORFLOW]
OF_PROCESSES = [
    "worker 5: heartbeat timed out, marking it lost",
    "no heartbeat from worker 5 for 300 s",
    "peer 10.0.0.3 has gone away",
]

FRAME = '  File "/app/data/loader.py", line 3, in next'
ERRORS = [
    "KeyError: 'input_idz'",
    "ValueError: bad shard",
    "IndexError: list index out of range",
    "TypeError: next() takes 1 positional argument but 2 were given",
    "NameError: name 'shrad' is not defined",
]

PREFIXES = [
    ("", ""),
    ("[rank5]: ", "[rank0]: "),
    ("[rank5]:", "[rank0]:"),
    ("rank5: ", "rank0: "),
    ("(rank5) ", "(rank0) "),
    ("(rank 5): ", "(rank 0): "),
    ("[Rank 5] ", "[Rank 0] "),
    ("[default5]:", "[default0]:"),
    ("[1,5]<stderr>:", "[1,0]<stderr>:"),
    ("[pod/train-5/main] ", "[pod/train-0/main] "),
    ("(train_fn pid=12, ip=10.0.0.3) ", "(train_fn pid=13, ip=10.0.0.4) "),
    ("(RayTrainWorker pid=12) [rank5]: ", "(RayTrainWorker pid=13) [rank0]: "),
]


def trace(error: str, prefix: str = "") -> list[str]:
    return [prefix + line for line in ("Traceback (most recent call last):", FRAME, error)]


def root(lines: list[str]) -> CauseClaim:
    return claims_in(lines)[0]


@every_row("peer", [*PEERS, *OF_PROCESSES])
@every_row("error", ERRORS)
def test_an_error_of_one_rank_is_the_cause_of_what_its_peers_say(error: str, peer: str) -> None:
    found = root([*trace(error), peer])
    assert (found.label, found.outlook, found.line) == ("code_bug", Outlook.ASK, error)


@every_row(("own", "other"), PREFIXES)
@every_row("peers", [[NCCL], [C10D, REMOTE], [JAX]])
@every_row("error", ["KeyError: 'input_idz'", "ValueError: bad shard"])
def test_what_stands_before_a_line_of_a_rank_hides_no_error(
    error: str, peers: list[str], own: str, other: str
) -> None:
    found = root([*trace(error, own), *(other + peer for peer in peers)])
    assert (found.label, found.outlook) == ("code_bug", Outlook.ASK)
    assert found.line.endswith(error)


@every_row("own", [own for own, _ in PREFIXES])
def test_where_a_rank_raised_is_read_behind_its_prefix(own: str) -> None:
    found = raised_in(trace("KeyError: 'input_idz'", own))
    assert found is not None
    assert (found.kind, found.frame.file, found.frame.line) == (
        "KeyError",
        "/app/data/loader.py",
        3,
    )


@pytest.mark.parametrize(
    ("line", "task"),
    [
        (f"[rank5]: {NCCL}", "rank5"),
        (f"(rank5) {NCCL}", "rank5"),
        (f"[Rank 5] {NCCL}", "Rank 5"),
        (f"(train_fn pid=12, ip=10.0.0.3) {NCCL}", "train_fn pid=12"),
    ],
)
def test_a_claim_names_the_rank_that_printed_it(line: str, task: str) -> None:
    assert root([line]).task == task


@every_row("peer", PEERS)
@every_row("prefix", ["", "[rank0]: ", "(rank0) "])
def test_a_lost_peer_alone_is_a_distributed_failure(prefix: str, peer: str) -> None:
    found = root([prefix + peer])
    assert found.label == "collective_hang"
    assert found.outlook is not Outlook.RETRY


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("download failed: network error", "network_storage_transient"),
        ("OSError: network failure while reading gs://bucket/shard-3", "network_storage_transient"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load this file",
         "network_storage_transient"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "network_storage_transient"),
        ("worker 5: heartbeat timed out, marking it lost", "node_failure"),
        ("no heartbeat from worker 5 for 300 s", "node_failure"),
        ("no heartbeat from host tr-0-11 for 300 s, removing it", "node_failure"),
    ],
)  # fmt: skip
def test_what_names_a_network_or_a_machine_still_does(line: str, label: str) -> None:
    found = root([line])
    assert (found.label, found.outlook) == (label, Outlook.RETRY)


@every_row("peer", [NCCL, WATCHDOG, JAX])
@every_row(
    "machine",
    [
        "no heartbeat from host tr-0-11 for 300 s, removing it",
        "the host stopped responding, worker 3 was lost",
        "worker 5: heartbeat timed out, marking it lost",
        "compute.instances.hostError: Instance terminated by Compute Engine.",
    ],
)
def test_a_lost_machine_is_the_cause_of_what_its_peers_say(machine: str, peer: str) -> None:
    assert {root([machine, peer]).label, root([peer, machine]).label} == {"node_failure"}


@pytest.mark.parametrize(
    "machine",
    [
        "no heartbeat from host tr-0-11 for 300 s, removing it",
        "compute.instances.hostError: Instance terminated by Compute Engine.",
    ],
)
def test_a_lost_machine_is_no_consequence_of_an_error(machine: str) -> None:
    assert root([*trace("KeyError: 'input_idz'"), machine]).label == "node_failure"
