"""Reads the facts that the launch rules need.

A source that does not answer is reported as such.

A first launch reads all sources. For a relaunch the ledger has most answers, so that it does not
wait for other sources.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from watchkeeper.domain.rules.launch.gate.code import checkout_of
from watchkeeper.domain.values.basic import (
    CheckpointFacts,
    CheckpointListing,
    JobFacts,
    Reading,
    SourceState,
)
from watchkeeper.domain.values.contract.contract import (
    Contract,
    checkpoint_root_of,
    logbook_path_of,
)
from watchkeeper.domain.values.contract.git_names import logbook_problem
from watchkeeper.domain.values.observation.gate_facts import (
    BUNDLE,
    CONFIG,
    GIT,
    HARDWARE,
    HOME,
    LOGBOOK,
    ORCHESTRATOR,
    STORE,
    TRACKER,
    WORKTREE,
    BundleFacts,
    HardwareFacts,
    HomeFacts,
    Lineage,
    LogbookFacts,
    RepositoryFacts,
    StoreFacts,
    TrackerNames,
    WorktreeFacts,
)
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub_json
from watchkeeper.ports.git import PushRaced
from watchkeeper.ports.sources import (
    BundleOrchestrator,
    HardwareOrchestrator,
    LogbookRefused,
    NamesTracker,
    Outside,
    RegionStore,
    Unavailable,
    WrittenStore,
)
from watchkeeper.services.watch.observe import SourceResult, query_source

log = logging.getLogger(__name__)

COMPLETE_MAX = 32
"""The number of newest complete checkpoints that are named."""


@dataclass(frozen=True, slots=True)
class Known:
    """The ledger's own facts for a launch, so that no outside source is read for them.

    Attributes:
        root_held_by: The holder of the output root; empty if it is free.
        lineage: The lineage of the checkpoint to start from; None if nothing is recorded.
        logbook: Whether the logbook can be pushed; None to try a dry-run push.
    """

    root_held_by: str = ""
    lineage: Lineage | None = None
    logbook: SourceResult[LogbookFacts] | None = None


def read_gate_facts(
    outside: Outside,
    contract: Contract,
    source_path: str,
    known: Known,
    scrubber: Scrubber,
    *,
    submission_id: str = "",
    adopts: bool = False,
) -> GateFacts:
    """Read the facts that the launch rules need.

    Args:
        outside: The ports.
        contract: The run's contract.
        source_path: The checkpoint to start from; empty for a start from scratch.
        known: The ledger's own facts.
        scrubber: Removes secrets from the configuration. The rules quote differing values without
            their names and compare them with recorded ones.
        submission_id: The id of a first launch, which reads all sources; empty for a relaunch.
        adopts: Whether a running job is adopted, so that its output location is read too.
    """
    first = bool(submission_id)
    resolved, other = outside.root_facts(contract)
    # Each call has its own timeout, so leaving the pool never takes long.
    with ThreadPoolExecutor(max_workers=9) as pool:
        code = pool.submit(_code, outside, contract)
        source = pool.submit(_source, outside, contract, source_path)
        logbook = None if known.logbook else pool.submit(_logbook, outside, contract)
        store = pool.submit(_store, outside, contract) if first or adopts else None
        names = pool.submit(_names, outside, contract) if first else None
        job = pool.submit(_job, outside, contract, submission_id) if first else None
        home = pool.submit(_home, outside, contract) if first else None
        hardware = pool.submit(_hardware, outside, contract) if first else None
        bundle = pool.submit(_bundle, outside, contract) if first else None
    repository, worktree, config = code.result()
    pushed = known.logbook or (logbook.result() if logbook else None)
    found_names = names.result() if names else None
    found_store, found_job = store.result() if store else None, job.result() if job else None
    found_home, found_hardware = (
        home.result() if home else None,
        hardware.result() if hardware else None,
    )
    found_bundle = bundle.result() if bundle else None
    from_source = source.result()
    asked: tuple[SourceResult[Any] | None, ...] = (
        repository, worktree, config, pushed, found_store, found_names, found_job,
        found_home, found_hardware, found_bundle,
    )  # fmt: skip
    return GateFacts(
        env_missing=outside.missing_variables(contract.env_from),
        source=from_source.answer if from_source else None,
        source_reading=from_source.reading if from_source else None,
        root_held_by=known.root_held_by or other,
        root_resolved=resolved,
        readings=tuple(one.reading for one in asked if one is not None),
        repository=repository.answer,
        worktree=worktree.answer if worktree else None,
        config=_scrubbed(scrubber, (config.answer or {}) if config else {}),
        store=found_store.answer if found_store else None,
        names=found_names.answer if found_names else None,
        job=found_job.answer if found_job else None,
        logbook=pushed.answer if pushed else None,
        lineage=known.lineage,
        home=found_home.answer if found_home else None,
        hardware=found_hardware.answer if found_hardware else None,
        bundle=found_bundle.answer if found_bundle else None,
    )


def _scrubbed(scrubber: Scrubber, config: dict[str, str]) -> dict[str, str]:
    clean, _ = scrub_json(scrubber, dict(config))
    assert isinstance(clean, dict)
    return {name: str(value) for name, value in clean.items()}


def push_logbook_first(push: Callable[[], object]) -> SourceResult[LogbookFacts]:
    """Push the logbook before anything is submitted, and return the result.

    Args:
        push: Pushes the logbook to its remote.
    """

    def pushed() -> LogbookFacts:
        try:
            push()
        except LogbookRefused as error:
            return LogbookFacts(pushed=False, refused=error.reason)
        except PushRaced as error:
            raise Unavailable("git", str(error)) from error
        return LogbookFacts(pushed=True)

    return query_source(LOGBOOK, pushed)


def refused_place(outside: Outside, contract: Contract) -> str:
    """Return why the contract's logbook path is refused; empty if it is allowed."""
    path, branch = logbook_path_of(contract), contract.logbook.branch
    return logbook_problem(path, branch, outside.logbook_folders())


def logbook_not_sent(refused: str) -> SourceResult[LogbookFacts]:
    """Return the facts of a logbook that was not pushed.

    Args:
        refused: Why its path is refused; empty if it waits for an approval.
    """
    facts = LogbookFacts(pushed=False, refused=refused, after_approval=not refused)
    return SourceResult(facts, Reading(source=LOGBOOK, state=SourceState.FRESH))


def logbook_on_record(failing: str) -> SourceResult[LogbookFacts]:
    """Return the recorded facts of a logbook that was pushed before.

    Args:
        failing: Why its newest push failed; empty if it succeeded.
    """
    if failing:
        reading = Reading(source=LOGBOOK, state=SourceState.UNAVAILABLE, reason=failing)
        return SourceResult(None, reading)
    fresh = Reading(source=LOGBOOK, state=SourceState.FRESH)
    return SourceResult(LogbookFacts(pushed=True), fresh)


Code = tuple[
    SourceResult[RepositoryFacts],
    "SourceResult[WorktreeFacts | None] | None",
    "SourceResult[dict[str, str]] | None",
]


def _code(outside: Outside, contract: Contract) -> Code:
    """Read the code's remote and the checkout; the configuration comes from the job's source."""
    part = contract.code
    sources = outside.launch_source()
    asked_remote = query_source(GIT, lambda: outside.git(part.remote, part.branch))
    remote = asked_remote.answer
    if remote is None:
        return SourceResult(None, asked_remote.reading), None, None
    repository = query_source(GIT, lambda: remote.look(part.git_sha))
    path = checkout_of(contract)
    worktree = query_source(WORKTREE, lambda: sources.worktree(path, part.ignore)) if path else None
    if not part.config:
        return repository, worktree, None
    tree = worktree.answer if worktree is not None else None
    top = tree.path if tree is not None else ""
    config = query_source(CONFIG, lambda: sources.config(part.config, top, remote, part.git_sha))
    return repository, worktree, config


def _source(
    outside: Outside, contract: Contract, path: str
) -> SourceResult[CheckpointFacts | None] | None:
    if not path:
        return None
    root = path.rstrip("/").rpartition("/")[0]
    listed = query_source(
        "checkpoints", lambda: outside.checkpoints(contract).list_checkpoints(root)
    )
    return SourceResult(_named(listed.answer, path), listed.reading)


def _named(listing: CheckpointListing | None, path: str) -> CheckpointFacts | None:
    name = path.rstrip("/").rpartition("/")[2]
    found = listing.checkpoints if listing is not None else ()
    return next((c for c in found if c.path.rstrip("/").rpartition("/")[2] == name), None)


def _logbook(outside: Outside, contract: Contract) -> SourceResult[LogbookFacts]:
    def tried() -> LogbookFacts:
        if refused := refused_place(outside, contract):
            return LogbookFacts(pushed=False, refused=refused)
        git = outside.git(contract.logbook.remote or contract.code.remote, contract.logbook.branch)
        return LogbookFacts(pushed=False, refused=git.push_refusal(logbook_path_of(contract)))

    return query_source(LOGBOOK, tried)


def _store(outside: Outside, contract: Contract) -> SourceResult[StoreFacts]:
    def read() -> StoreFacts:
        port = outside.checkpoints(contract)
        listing = port.list_checkpoints(checkpoint_root_of(contract))
        complete = tuple(c.step for c in listing.checkpoints if c.complete)[-COMPLETE_MAX:]
        root = contract.output_root
        newest = port.newest_write(root) if isinstance(port, WrittenStore) else None
        path, at = newest or ("", None)
        region = _region(port, root)
        return StoreFacts(region=region, complete=complete, written=path, written_at=at)

    return query_source(STORE, read)


def _region(port: object, root: str) -> str:
    if not isinstance(port, RegionStore):
        return ""
    try:
        return port.region_of(root)
    except Unavailable as error:
        # Reading objects needs no permission to read the bucket's settings.
        log.info("the region is taken from the name: %s", error)
        return ""


def _names(outside: Outside, contract: Contract) -> SourceResult[TrackerNames] | None:
    tracker = outside.tracker(contract)
    if not isinstance(tracker, NamesTracker):
        return None
    return query_source(TRACKER, lambda: tracker.names(contract.tracker.display_name))


def _job(outside: Outside, contract: Contract, submission_id: str) -> SourceResult[JobFacts]:
    return query_source(ORCHESTRATOR, lambda: outside.orchestrator(contract).find(submission_id))


def _home(outside: Outside, contract: Contract) -> SourceResult[HomeFacts]:
    named = [name for name in (contract.dri, contract.watch.holder) if name]
    return query_source(HOME, lambda: outside.home_facts(named))


def _hardware(outside: Outside, contract: Contract) -> SourceResult[HardwareFacts] | None:
    orchestrator = outside.orchestrator(contract)
    if not isinstance(orchestrator, HardwareOrchestrator):
        return None
    return query_source(HARDWARE, orchestrator.hardware)


def _bundle(outside: Outside, contract: Contract) -> SourceResult[BundleFacts] | None:
    orchestrator, name = outside.orchestrator(contract), contract.code.bundle
    if not name or not isinstance(orchestrator, BundleOrchestrator):
        return None
    asked = query_source(BUNDLE, lambda: orchestrator.has_bundle(name))
    if asked.reading.state is SourceState.FRESH and asked.answer is None:
        return None  # The orchestrator cannot check a name of another kind.
    answer = None if asked.answer is None else BundleFacts(there=asked.answer)
    return SourceResult(answer, asked.reading)
