"""Output roots: one live writer each, above and below included."""

import pytest

from tests.domain.given import History, enveloped
from tests.domain.samples import (
    LOOP,
    ROOT,
    SLUG,
    clear,
    contract,
    exited,
    job,
    killed,
    listing,
    node_lost,
    succeeded,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import ReportRefusedLaunch
from watchkeeper.domain.rules.launch.roots import (
    ROOTS,
    Claim,
    Roots,
    claims_for,
    evolve_roots,
    overlapping,
)
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.launch import OutputRootClaimed, OutputRootReleased, RootEvent
from watchkeeper.domain.run.phases import Cleared, Interrupted, Launching, Running
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.places import contract_root


def holding(*claims: tuple[str, str]) -> Roots:
    return folded([OutputRootClaimed(root=root, run=run, instance="i1") for root, run in claims])


def folded(events: list[RootEvent], roots: Roots | None = None) -> Roots:
    roots = roots or Roots()
    for event in events:
        roots = evolve_roots(roots, enveloped(event, roots.version + 1, stream=ROOTS))
    return roots


def told(history: History) -> Roots:
    """The roots as they stand after a run's whole history, claimed as it went."""
    roots = Roots()
    for event in history.events:
        data = event.data
        assert isinstance(data, RunEvent)
        claims = claims_for(roots, SLUG, [data])
        assert not isinstance(claims, Refused)
        roots = folded(claims, roots)
    return roots


@every_row(
    ("held", "wanted", "taken"),
    [
        ("gs://b/run", "gs://b/run", True),
        ("gs://b/run", "gs://b/run/", True),
        ("gs://b/run", "gs://b//run", True),
        ("gs://b/run", "gs://b/./x/../run", True),
        ("gs://b/run", "GS://b/run", True),
        ("gs://b/run", "gcs://b/run", True),
        ("s3://b/run", "s3a://b/run", True),
        ("gs://b/run", "gs://b/run/sub", True),
        ("gs://b/run/sub", "gs://b/run", True),
        ("gs://b/run", "gs://b", True),
        ("/mnt/run", "file:///mnt/run", True),
        ("/mnt/run", "/", True),
        ("gs://b/run", "gs://b/run2", False),
        ("gs://b/run2", "gs://b/run", False),
        ("gs://b/run", "s3://b/run", False),
        ("gs://b/run", "/b/run", False),
        ("gs://b/run", "gs://B/run", False),
        ("gs://b/run/a", "gs://b/run/b", False),
    ],
)
def test_a_root_is_taken_by_itself_its_parents_and_its_children(
    held: str, wanted: str, taken: bool
) -> None:
    roots = holding((contract_root(held), "other"))
    found = overlapping(roots, wanted)
    assert found == ((contract_root(held), Claim("other", "i1")) if taken else None)


def test_a_request_claims_its_root_and_an_end_releases_it() -> None:
    assert told(story(Cleared)).held == {}
    claimed = {ROOT: Claim(SLUG, "i1")}
    assert told(story(Launching)).held == claimed
    assert told(story(Running)).held == claimed
    history = story(Interrupted)
    assert told(history).held == {}
    assert told(history.relaunch()).held == {ROOT: Claim(SLUG, "i2")}


@pytest.mark.parametrize(
    "end", [succeeded(), killed(), exited(3), node_lost(), job(JobState.STOPPED)]
)
def test_every_proven_end_releases_the_root(end: JobFacts) -> None:
    history = story(Running)
    history.fail(end, found=listing(1000))
    assert told(history).held == {}


def test_nothing_else_releases_a_root() -> None:
    history = story(Running)
    history.check(job(JobState.NOT_FOUND))
    history.check(job(JobState.UNKNOWN))
    history.check(without=("orchestrator",))
    assert told(history).held == {ROOT: Claim(SLUG, "i1")}


def test_a_launch_that_was_definitely_refused_releases_the_root() -> None:
    history = story(Launching)
    answer = history.tell(
        ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i1", reason="no")
    )
    roots = claims_for(holding((ROOT, SLUG)), SLUG, answer.events)
    assert roots == [OutputRootReleased(root=ROOT, run=SLUG, instance="i1", why="never started")]


def requested(root: str = ROOT) -> list[RunEvent]:
    history = History().draft(contract(output_root=root)).approve()
    return history.when(history.launch_command()).events


def test_a_request_on_a_taken_root_is_refused_and_names_the_holder() -> None:
    answer = claims_for(holding((f"{ROOT}/child", "other")), SLUG, requested())
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.ROOT_TAKEN
    assert f"{ROOT}/child (other i1)" in answer.detail


def test_a_claim_is_normalised() -> None:
    root = ROOT.replace("gs://", "gcs://") + "//x/"
    claimed = OutputRootClaimed(root=f"{ROOT}/x", run=SLUG, instance="i1")
    assert claims_for(Roots(), SLUG, requested(root)) == [claimed]


def test_an_end_releases_only_the_run_s_own_instance() -> None:
    history = story(Running)
    events = history.fail(killed(), found=listing(1000)).events
    assert claims_for(holding((ROOT, "other")), SLUG, events) == []
    newer = Roots(1, {ROOT: Claim(SLUG, "i2")})
    assert claims_for(newer, SLUG, events) == []


def test_events_of_other_streams_change_no_claims() -> None:
    roots = holding((ROOT, SLUG))
    after = evolve_roots(roots, enveloped(requested()[0], 2))
    assert (after.held, after.version) == (roots.held, 2)


def test_a_claim_holds_what_the_root_resolves_to_as_well() -> None:
    history = History().draft(contract(output_root="/link/x")).approve()
    facts = clear(root_resolved="/real/x")
    events = history.when(history.launch_command(facts)).events
    claims = claims_for(Roots(), SLUG, events)
    assert not isinstance(claims, Refused)
    assert [claim.root for claim in claims] == ["/link/x", "/real/x"]
    for held in ("/real/x", "/real/x/y", "/link", "/link/x"):
        assert isinstance(claims_for(holding((held, "other")), SLUG, events), Refused)
    ended = story(Running).fail(killed(), found=listing(1000)).events
    released = claims_for(folded(claims), SLUG, ended)
    assert not isinstance(released, Refused)
    assert folded(released, folded(claims)).held == {}
