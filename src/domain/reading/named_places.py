"""Finds the machine or disk that the last lines of a log name."""

import re
from collections.abc import Iterable

from watchkeeper.domain.values.basic import ForeignText
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

NODES_MAX = 8
"""How many machines a failure names."""

BAD_NODE = re.compile(
    r"No accelerator found|FAILED_PRECONDITION|Device or resource busy|"
    r"Failed to cleanup driver|TPU initialization failed|vfio|accel\d+.*(?:busy|denied)",
    re.IGNORECASE,
)
"""Messages of a bad TPU node, from the documented monitoring loop and from libtpu."""

_DISK_FULL = re.compile(r"No space left on device|ENOSPC|Disk quota exceeded|EDQUOT", re.IGNORECASE)
_HOST = re.compile(
    r"\b(?:ip|node_ip|node_ip_address|host|hostname|node|node_name|worker|instance)\s*[=:]\s*"
    r"['\"]?(?P<named>[A-Za-z0-9](?:[\w.-]{0,100}\w)?)"
    r"|\bon (?:node|host|worker|TPU VM) ['\"]?(?P<said>[A-Za-z0-9](?:[\w.-]{0,100}\w)?)"
    r"|\b(?P<bare>(?:t1v-n-|ray-|tpu-|gke-)[\w-]*\w)"
)
_NUMBER = re.compile(r"^\d+$")
_ADDRESS = re.compile(r"^\d{1,3}(?:\.\d{1,3}){3}$")
_PATH = re.compile(r"['\"](?P<quoted>/[^'\"]{0,250})['\"]|(?:^|[\s:(])(?P<bare>/[\w.@/-]{1,250})")
_FAILED = frozenset(
    {AttemptState.FAILED, AttemptState.WORKER_FAILED, AttemptState.KILLED, AttemptState.PREEMPTED}
)
_FREE_SHARE_MIN = 0.10
"""Free share below which a disk counts as full, as in the alert of H15."""


def nodes_of_end(check: Check) -> tuple[str, ...]:
    """Return the machine of the first failed task. Later failures are consequences."""
    failed = [one for one in _failed(check) if one.node]
    return (failed[0].node,) if failed else ()


def bad_nodes(check: Check, lines: Iterable[str]) -> tuple[str, ...]:
    """Return the machines with a bad TPU, in the order in which they are named.

    A cluster's log names a machine by its address. The orchestrator uses the machine's name. The
    two lists cannot be matched, so only the longer list is used.

    Args:
        check: The check that saw the end, with the attempts of its tasks.
        lines: The evidence of the failure.
    """
    failed_nodes = [one.node for one in _failed(check) if one.node and BAD_NODE.search(one.message)]
    shown = (*lines, *check.evidence, *(claim.line for claim in check.claims))
    printed = [name for line in shown if BAD_NODE.search(line) for name in hosts_in(line)]
    if (
        failed_nodes
        and printed
        and all(map(_ADDRESS.match, printed))
        and not any(map(_ADDRESS.match, failed_nodes))
    ):
        named = max(dict.fromkeys(failed_nodes), dict.fromkeys(printed), key=len)
    else:
        named = dict.fromkeys([*failed_nodes, *printed])
    return (tuple(named) or nodes_of_end(check))[:NODES_MAX]


def full_disk(check: Check, lines: Iterable[str]) -> tuple[str, str]:
    """Return the host and the path of a full disk. Each is empty if nothing names it."""
    shown = [
        line
        for line in (*lines, *check.evidence, *(claim.line for claim in check.claims))
        if _DISK_FULL.search(line)
    ]
    host = next((name for line in shown for name in hosts_in(line)), "")
    path = next((found for line in shown if (found := path_in(line))), "")
    low = [
        one
        for one in check.hosts
        if one.total_bytes and one.free_bytes is not None
        if one.free_bytes < _FREE_SHARE_MIN * one.total_bytes
    ]
    if low and not host:
        host = low[0].host
    same = next((one for one in low if one.host == host), None)
    if not path and same is not None:
        path = same.path
    return host or next(iter(nodes_of_end(check)), ""), path


def quota_line(lines: Iterable[ForeignText]) -> ForeignText:
    """Return the first line that mentions a quota; empty without one."""
    return next((line for line in lines if "quota" in line.lower()), "")


def hosts_in(line: str) -> tuple[str, ...]:
    """Return the machines that a line names.

    >>> hosts_in("(pid=4021, ip=10.128.0.7) RuntimeError: No accelerator found")
    ('10.128.0.7',)
    """
    named = (m["named"] or m["said"] or m["bare"] for m in _HOST.finditer(line))
    return tuple(dict.fromkeys(name for name in named if name and not _NUMBER.match(name)))


def path_in(line: str) -> str:
    """Return the path that a line names; empty without one.

    >>> path_in("OSError: [Errno 28] No space left on device: '/tmp/ray/spill'")
    '/tmp/ray/spill'
    """
    found = _PATH.search(line)
    return (found["quoted"] or found["bare"]) if found else ""


def _failed(check: Check) -> list[AttemptFacts]:
    return [one for one in check.attempts if one.state in _FAILED]
