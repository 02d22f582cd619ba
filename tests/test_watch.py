"""The watch over real processes, real files and a real git remote."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from tests.session import (
    DRI,
    LIMIT,
    approved,
    ask_for_launch,
    data_of,
    phase_of,
    requested,
    runs_of,
    taken,
    topics,
    watch_until,
)
from tests.training import Site, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, holder_of
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.operator.commands import AddNote, AnswerQuestion, Stop
from watchkeeper.domain.rules.permits.commands import Revoke
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.watch.commands import TakeWatch
from watchkeeper.domain.run.effects import EffectFailed
from watchkeeper.domain.run.ends import DecisionMade, FailureClassified
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRefused, LaunchRequested
from watchkeeper.domain.run.outbox.outbox import wait_before
from watchkeeper.domain.run.outbox.policy import Act
from watchkeeper.domain.run.phases import Sealed
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded, Holder
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.ports.event_store import Write
from watchkeeper.ports.sources import SubmitRefused, Unavailable
from watchkeeper.services.ledger import run_feed
from watchkeeper.services.services import SERVICE, submission_id
from watchkeeper.services.watch import actions
from watchkeeper.services.watch.actions import perform
from watchkeeper.services.watch.launches import job_spec
from watchkeeper.services.watch.loop import Watcher

pytestmark = pytest.mark.git


class Faulty:
    """A fake over the real adapters, for faults that the real ones cannot be made to show."""

    def __init__(self, inner: Any, **replacements: Any) -> None:
        self._inner = inner
        self._replacements = replacements

    def __getattr__(self, name: str) -> Any:
        return self._replacements.get(name) or getattr(self._inner, name)


def sealed(slug: str) -> Callable[[dict[str, Run]], bool]:
    def is_sealed(runs: dict[str, Run]) -> bool:
        return slug in runs and isinstance(runs[slug].phase, Sealed)

    return is_sealed


def pushed_whole(session: Session, slug: str) -> bool:
    run = session.ledger.run(slug)
    pushed = session.ledger.effects(slug).pushed
    return isinstance(run, Run) and pushed is not None and pushed.version == run.version


def test_a_run_is_launched_watched_and_sealed(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "calm"))
    watch_until(session, lambda runs: sealed("calm")(runs) and pushed_whole(session, "calm"))
    assert git(site.remote, "cat-file", "-t", "run/calm/final").strip() == "tag"
    assert git(site.remote, "rev-parse", "run/calm/final^{commit}").strip() == site.sha
    message = git(site.remote, "log", "-1", "--format=%B", "main")
    version = session.ledger.run("calm").version
    assert f"Watchkeeper-Head: {version} sha256:" in message
    assert topics(session, "calm")[-1] == "run.sealed.1"


def test_a_killed_run_resumes_from_the_newest_complete_checkpoint(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "hurt", steps=120, die="kill@110"))
    watch_until(session, sealed("hurt"))
    [decision, verify] = data_of(session, "hurt", DecisionMade)
    # step-90 comes after step-100 by text; step-110 is newer and half written.
    assert (decision.rule, decision.resume_step) == ("R1", 100)
    assert any("step-110 refused" in text for text in decision.refused)
    assert verify.rule == "R15"
    first, second = data_of(session, "hurt", LaunchRequested)
    assert second.plan.submission_id != first.plan.submission_id
    assert second.plan.output_root == first.plan.output_root
    assert second.plan.tracker_id == first.plan.tracker_id


def test_a_line_that_no_reader_can_read_blinds_no_check(session: Session, site: Site) -> None:
    hostile = 'print(\'{"a":\' + "[" * 1_980, flush=True)\n'
    site.script.write_text(hostile + site.script.read_text())
    requested(session, tiny_contract(site, "deep", steps=60, die="kill@50"))
    watch_until(session, sealed("deep"))
    assert [d.rule for d in data_of(session, "deep", DecisionMade)] == ["R1", "R15"]
    checks = data_of(session, "deep", CheckRecorded)
    said = {r.reason for check in checks for r in check.readings if r.source == "logs"}
    assert "1 line unreadable: nested too deeply" in said
    assert "1 line unreadable" in git(site.remote, "show", "main:.agents/logbooks/deep.md")


@pytest.mark.parametrize(
    "row",
    [
        {"tracker": {"id": "odd", "display_name": "odd \ud800", "state": "running"}},
        {"step": 2**70, "loss": 1.0},
        {"step": 1, "loss \ud800": 1.0},
    ],
    ids=["half a character", "a step of 71 bits", "half a character in a name"],
)
def test_no_row_of_a_tracker_file_blinds_a_check(
    session: Session, site: Site, row: dict[str, Any]
) -> None:
    text = site.script.read_text()
    site.script.write_text(
        text.replace("for step in", f"row(**json.loads({json.dumps(row)!r}))\nfor step in", 1)
    )
    requested(session, tiny_contract(site, "odd", steps=60, die="kill@50"))
    watch_until(session, lambda _: bool(data_of(session, "odd", InstanceEnded)))
    assert data_of(session, "odd", CheckRecorded)[0].readings


def test_the_same_failure_twice_is_asked_about_and_a_human_may_relaunch(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "loop", steps=40, die="always@20"))
    watch_until(session, lambda runs: bool(runs["loop"].questions.open))
    assert [d.rule for d in data_of(session, "loop", DecisionMade)] == ["R1", "R2"]
    assert phase_of(session, "loop") == "interrupted"
    command = AnswerQuestion(
        now=clock.now(), actor=DRI, question="q-1", answer="relaunch", note="go"
    )
    taken(session.ledger.handle("loop", command))
    watch_until(session, lambda runs: len(runs["loop"].ends.failures) == 3)
    assert data_of(session, "loop", DecisionMade)[2].rule == "R19"


def test_a_run_that_exits_badly_is_never_relaunched_by_itself(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "exits", die="exit@20"))
    watch_until(session, lambda runs: bool(runs["exits"].questions.open))
    [failure] = data_of(session, "exits", FailureClassified)
    assert (failure.cause, failure.outlook) == ("unknown", "ask")
    assert len(runs_of(session)["exits"].instances) == 1


def test_a_stop_on_record_ends_the_run_and_nothing_relaunches_it(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "halt", steps=4000))
    watch_until(session, lambda runs: type(runs["halt"].phase).__name__ == "Running")
    taken(session.ledger.handle("halt", Stop(now=clock.now(), actor=DRI, reason="enough")))
    watch_until(session, lambda runs: type(runs["halt"].phase).__name__ == "Stopped")
    assert [d.rule for d in data_of(session, "halt", DecisionMade)] == ["R14"]
    assert not data_of(session, "halt", FailureClassified)


def test_a_job_that_cannot_be_submitted_is_refused_and_asked_about(
    session: Session, site: Site
) -> None:
    contract = tiny_contract(site, "refused")
    requested(session, contract)
    full = Faulty(session.adapters.orchestrator(contract), submit=_refuse)

    def always_full(_: Contract) -> Any:
        return full

    services = replace(session.services, outside=Faulty(session.adapters, orchestrator=always_full))
    watch_until(session, lambda runs: bool(runs["refused"].questions.open), services=services)
    assert len(data_of(session, "refused", LaunchRefused)) == 1
    assert not session.ledger.roots().held


def test_a_variable_that_is_missing_at_submit_uses_up_no_instance(
    session: Session, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEEDED_HERE", "x")
    contract = tiny_contract(site, "named").model_copy(update={"env_from": ("NEEDED_HERE",)})
    requested(session, contract)
    monkeypatch.delenv("NEEDED_HERE")

    def failing(_: dict[str, Run]) -> bool:
        return "submit" in session.ledger.effects("named").failing

    watch_until(session, failing)
    assert "env_from names NEEDED_HERE" in session.ledger.effects("named").failing["submit"].reason
    assert not data_of(session, "named", LaunchRefused)
    monkeypatch.setenv("NEEDED_HERE", "x")
    watch_until(session, sealed("named"))
    assert [i.plan.instance for i in runs_of(session)["named"].instances] == ["i1"]


def test_two_runs_on_one_output_root_exactly_one_starts(session: Session, site: Site) -> None:
    root = str(site.folder / "shared")
    for name in ("left", "right"):
        approved(session, tiny_contract(site, name, output=root))
    outcomes: dict[str, Any] = {}

    def launch(name: str) -> None:
        outcomes[name] = ask_for_launch(session, tiny_contract(site, name, output=root))

    threads = [threading.Thread(target=launch, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    started = [name for name in outcomes if phase_of(session, name) == "launching"]
    assert len(started) == 1
    assert len(session.ledger.roots().held) == 1


def test_a_dead_orchestrator_is_unavailable_and_health_is_untouched(
    session: Session, site: Site
) -> None:
    requested(session, tiny_contract(site, "dark", steps=4000))
    watch_until(session, lambda runs: type(runs["dark"].phase).__name__ == "Running")
    down = Faulty(
        session.adapters.orchestrator(tiny_contract(site, "dark")), find=_raise_unavailable
    )

    def always_down(_: Contract) -> Any:
        return down

    outside = Faulty(session.adapters, orchestrator=always_down)
    services = replace(session.services, outside=outside)
    before = len(data_of(session, "dark", CheckRecorded))
    watch_until(
        session,
        lambda _: len(data_of(session, "dark", CheckRecorded)) >= before + 3,
        services=services,
    )
    run = runs_of(session)["dark"]
    last = data_of(session, "dark", CheckRecorded)[-1]
    assert run.health.verdict is Health.HEALTHY
    assert last.readings[0].state == "unavailable"
    assert "the cable is out" in last.readings[0].reason
    assert not data_of(session, "dark", InstanceEnded)


def _refuse(*args: object, **kwargs: object) -> None:
    raise SubmitRefused("no such queue")


def _raise_unavailable(*args: object, **kwargs: object) -> None:
    raise Unavailable("orchestrator", "the cable is out")


def test_a_slow_source_never_delays_another_runs_check(session: Session, site: Site) -> None:
    for name in ("slow", "quick"):
        requested(session, tiny_contract(site, name, steps=4000))
    both = {"slow", "quick"}
    watch_until(session, lambda runs: all(type(runs[n].phase).__name__ == "Running" for n in both))
    stuck = threading.Event()

    class Slow:
        def read(self) -> None:
            stuck.wait(timeout=50)
            raise Unavailable("tracker", "too slow")

    real = session.adapters.tracker

    def tracker(of: Contract) -> Any:
        return Slow() if of.run == "slow" else real(of)

    outside = Faulty(session.adapters, tracker=tracker)
    before = {name: len(data_of(session, name, CheckRecorded)) for name in both}
    timer = clock.Timer()

    def five_more(_: dict[str, Run]) -> bool:
        if len(data_of(session, "quick", CheckRecorded)) < before["quick"] + 5:
            return False
        stuck.set()
        return True

    watch_until(session, five_more, services=replace(session.services, outside=outside))
    assert timer.elapsed() < timedelta(seconds=40)


def test_after_a_restart_what_is_due_is_checked_before_the_rest_is_read(
    session: Session, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested(session, tiny_contract(site, "zz", steps=4000))
    watch_until(session, lambda runs: type(runs["zz"].phase).__name__ == "Running")
    for name in ("aa", "bb", "cc"):
        draft = DraftRun(now=clock.now(), actor=DRI, contract=tiny_contract(site, name))
        taken(session.ledger.handle(name, draft))
    monkeypatch.setattr(run_feed, "AT_ONCE", timedelta(0))
    checks = len(data_of(session, "zz", CheckRecorded))
    run = session.ledger.run("zz")
    assert isinstance(run, Run)
    assert run.watch.next_due is not None
    stop = threading.Event()
    looked: list[str] = []

    class Files:
        def write_state(self, run: Run) -> None:
            looked.append(run.slug)
            if run.slug == "bb":
                backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=50))
                checked = backoff.wait_until(
                    lambda: len(data_of(session, "zz", CheckRecorded)) > checks, LIMIT
                )
                assert checked, "nothing was checked while runs were still to be read"
            if run.slug == "cc":
                stop.set()

    holder = holder_of(session.home, "watchkeeper")
    # What is not due at the start is begun in a later turn, and the only one waits for it above.
    with freeze_time(run.watch.next_due, tick=True):
        Watcher(session.services, holder, Files()).run(stop)
    assert [slug for slug in dict.fromkeys(looked) if slug != "zz"] == ["aa", "bb", "cc"]
    assert looked[0] == "zz"


def test_a_remote_that_is_gone_delays_pushes_only_and_is_shown(
    session: Session, site: Site
) -> None:
    hidden = site.remote.with_name("hidden.git")
    requested(session, tiny_contract(site, "offline", steps=60))
    site.remote.rename(hidden)
    watch_until(session, lambda _: bool(session.ledger.effects("offline").failing))
    assert session.ledger.effects("offline").failing["logbook"].attempt >= 1
    watch_until(session, lambda runs: type(runs["offline"].phase).__name__ == "Finished")
    hidden.rename(site.remote)
    watch_until(session, sealed("offline"))
    assert not session.ledger.effects("offline").failing


def test_a_logbook_that_somebody_edited_is_never_overwritten(
    session: Session, site: Site, tmp_path: Path
) -> None:
    requested(session, tiny_contract(site, "edited", steps=4000))
    watch_until(session, lambda _: session.ledger.effects("edited").pushed is not None)
    clone = tmp_path / "person"
    git(tmp_path, "clone", "--quiet", str(site.remote), str(clone))
    book = clone / ".agents/logbooks/edited.md"
    book.write_text(book.read_text().replace("# ", "# everything launched: ", 1))
    git(clone, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "--quiet", "-am", "edit")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    watch_until(session, lambda _: "logbook" in session.ledger.effects("edited").failing)
    assert "was edited after" in session.ledger.effects("edited").failing["logbook"].reason
    there = git(site.remote, "show", "main:.agents/logbooks/edited.md")
    assert "everything launched" in there


def test_every_pushed_logbook_is_kept_by_the_ones_after_it(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "story", steps=80, die="kill@50"))
    watch_until(session, lambda runs: sealed("story")(runs) and pushed_whole(session, "story"))
    commits = git(site.remote, "log", "--reverse", "--format=%H", "--", ".agents").split()
    books = [git(site.remote, "show", f"{c}:.agents/logbooks/story.md") for c in commits]
    assert len(books) >= 5
    for before, after in pairwise(books):
        for old, new in zip(_sections(before), _sections(after), strict=True):
            assert new.startswith(old.rstrip("\n")), "a pushed text was changed"


def _sections(book: str) -> tuple[str, str]:
    """Return the launched instances and the event log; only the head shows current values."""
    _, _, rest = book.partition("## Launched Instances\n")
    instances, _, log = rest.partition("## Event Log\n")
    return instances, log


def test_a_superseded_holder_no_longer_acts(session: Session, site: Site) -> None:
    run = requested(session, tiny_contract(site, "fenced"))
    mine = taken(_take(session, "fenced", "ops-1", force=False)).run
    theirs = taken(_take(session, "fenced", "ops-2", force=True)).run
    assert theirs.watch.token > mine.watch.token
    assert perform(session.services, run, Act.SUBMIT, mine.watch.token) is False
    orchestrator = session.adapters.orchestrator(tiny_contract(site, "fenced"))
    assert orchestrator.find(submission_id(session.services, "fenced", 1)).state == "not_found"
    refused = _take(session, "fenced", "ops-1", force=False)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.WATCH_HELD


def _take(session: Session, slug: str, host: str, *, force: bool) -> Any:
    holder = Holder(principal="watchkeeper", host=host, home=host)
    command = TakeWatch(now=clock.now(), actor=DRI, holder=holder, same_home=True, force=force)
    return session.ledger.handle(slug, command)


def test_a_crash_between_submit_and_record_never_makes_a_second_job(
    session: Session, site: Site
) -> None:
    run = requested(session, tiny_contract(site, "once", steps=4000))
    orchestrator = session.adapters.orchestrator(tiny_contract(site, "once"))
    orchestrator.submit(job_spec(run.instances[0].plan))
    # Here the watch died: the job is there, and the ledger does not know it.
    watch_until(session, lambda runs: type(runs["once"].phase).__name__ == "Running")
    assert len(list(session.home.jobs.glob("once-*"))) == 1


def test_a_failed_effect_waits_longer_each_time(session: Session, site: Site) -> None:
    approved(session, tiny_contract(site, "waits"))
    waits: list[timedelta] = []
    with freeze_time(clock.now()):
        for _ in range(4):
            event = actions.internal_failure(
                session.ledger.effects("waits"), "logbook", "no answer"
            )
            session.ledger.record_effects("waits", [event], SERVICE)
            assert isinstance(event, EffectFailed)
            waits.append(event.retry_at - clock.now())
    assert waits == [wait_before(attempt, 1.0) for attempt in (1, 2, 3, 4)]
    assert waits == sorted(set(waits))
    assert waits[-1] > timedelta(seconds=10)


def test_results_of_effects_never_move_the_runs_head(session: Session, site: Site) -> None:
    before = approved(session, tiny_contract(site, "still")).version
    event = actions.internal_failure(session.ledger.effects("still"), "logbook", "no answer")
    session.ledger.record_effects("still", [event], SERVICE)
    assert session.ledger.run("still").version == before
    note = AddNote(now=clock.now(), actor=DRI, text="still here")
    assert taken(session.ledger.handle("still", note)).run.version == before + 1


def test_a_run_whose_watch_was_declined_is_left_alone_unless_named(
    session: Session, site: Site
) -> None:
    alone = tiny_contract(site, "alone")
    declined = alone.watch.model_copy(update={"holder": "", "declined": "a smoke test"})
    requested(session, alone.model_copy(update={"watch": declined}))
    requested(session, tiny_contract(site, "watched"))
    watch_until(session, sealed("watched"))
    assert phase_of(session, "alone") == "launching"
    assert "run.watch_taken.1" not in topics(session, "alone")


def test_what_follows_from_a_check_names_it_as_its_cause(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "caused", die="exit@20"))
    watch_until(session, lambda runs: bool(runs["caused"].questions.open))
    events = session.ledger.history("caused")
    [ended] = [e for e in events if isinstance(e.data, InstanceEnded)]
    check = [e for e in events[: ended.version] if isinstance(e.data, CheckRecorded)][-1]
    assert ended.envelope.cause == str(check.envelope.event_id)
    assert check.envelope.cause is None


def test_a_run_that_cannot_be_read_is_listed_and_the_others_are_watched_on(
    session: Session, site: Site
) -> None:
    approved(session, tiny_contract(site, "strange"))
    newer = Write("effects/strange", 0, (("effects.logbook_pushed.9", b'{"data": {}}'),))
    session.ledger.store.append([newer])
    requested(session, tiny_contract(site, "plain"))
    watch_until(session, sealed("plain"))
    rows = {row.run: row.row for row in session.ledger.store.status_rows() if row.part == "run"}
    assert "newer than this code" in rows["strange"]


def test_a_stop_before_the_submit_starts_no_job(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "halted"))
    stop = Stop(now=clock.now(), actor=DRI, reason="not now")
    taken(session.ledger.handle("halted", stop))
    watch_until(session, lambda runs: type(runs["halted"].phase).__name__ == "Stopped")
    orchestrator = session.adapters.orchestrator(tiny_contract(site, "halted"))
    assert orchestrator.find(submission_id(session.services, "halted", 1)).state == "not_found"
    assert not session.ledger.roots().held


def test_an_approval_revoked_before_the_submit_starts_no_job(session: Session, site: Site) -> None:
    requested(session, tiny_contract(site, "withdrawn"))
    revoke = Revoke(now=clock.now(), actor=DRI, name="a-1", reason="wrong mesh")
    taken(session.ledger.handle("withdrawn", revoke))
    watch_until(session, lambda runs: bool(runs["withdrawn"].questions.open))
    orchestrator = session.adapters.orchestrator(tiny_contract(site, "withdrawn"))
    assert orchestrator.find(submission_id(session.services, "withdrawn", 1)).state == "not_found"
    assert [r.reason for r in data_of(session, "withdrawn", LaunchRefused)] == [
        "a-1 was revoked first"
    ]
    assert not session.ledger.roots().held


@pytest.mark.parametrize("late", ["revoke", "stop", "takeover"])
def test_what_people_ask_while_the_orchestrator_is_asked_still_stops_the_submit(
    session: Session, site: Site, late: str
) -> None:
    promised = tiny_contract(site, "late")
    run = requested(session, promised)
    real = session.adapters.orchestrator(promised)

    class Slow:
        """Somebody takes it back between the question and its answer."""

        def find(self, submission: str) -> Any:
            found = real.find(submission)
            if late == "revoke":
                revoke = Revoke(now=clock.now(), actor=DRI, name="a-1", reason="wrong mesh")
                taken(session.ledger.handle("late", revoke))
            elif late == "stop":
                stop = Stop(now=clock.now(), actor=DRI, reason="not now")
                taken(session.ledger.handle("late", stop))
            else:
                taken(_take(session, "late", "ops-2", force=True))
            return found

        submit = real.submit

    def orchestrator(of: Contract) -> Slow:
        del of
        return Slow()

    outside = Faulty(session.adapters, orchestrator=orchestrator)
    perform(replace(session.services, outside=outside), run, Act.SUBMIT, run.watch.token)
    assert real.find(submission_id(session.services, "late", 1)).state == "not_found"


def test_an_act_that_is_no_longer_due_is_left_and_is_no_fault(session: Session, site: Site) -> None:
    run = requested(session, tiny_contract(site, "gone"))
    stop = Stop(now=clock.now(), actor=DRI, reason="not now")
    taken(session.ledger.handle("gone", stop))
    perform(session.services, run, Act.SUBMIT, run.watch.token)
    # The board still shows the run as it was.
    for act in (Act.SUBMIT, Act.CHECK, Act.RELAUNCH, Act.TAG, Act.MILESTONE, Act.CLOSE):
        assert perform(session.services, run, act, run.watch.token) is False
