"""Whole histories of runs, told by commands through the domain: what a DRI would live through."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.domain.given import History
from tests.domain.samples import (
    AGENT,
    DIRTY,
    DRI,
    LOOP,
    RIVAL,
    checkpoint,
    clear_for,
    consented_patch,
    contract,
    dirty,
    exited,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    sealable,
    seen,
    succeeded,
    tracker,
)
from tests.projections.tales_judgement import mended, rethought, thought_along
from tests.projections.tales_live import stood_still
from tests.projections.tales_manoeuvres import adopted, manoeuvred, superseded
from tests.projections.tales_signals import signalled
from watchkeeper.domain.rules.launch.commands import (
    AmendContract,
    ApproveLaunch,
    ReportRefusedLaunch,
)
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnswerQuestion,
    Correct,
    Stop,
    TakeQuestion,
)
from watchkeeper.domain.rules.permits.commands import GiveConsent, Revoke, Waive
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.commands import ReleaseWatch, TakeWatch
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.launch import InstanceEnded
from watchkeeper.domain.run.permits import ConsentGiven
from watchkeeper.domain.run.watch import HistoryLimitPassed
from watchkeeper.domain.values.basic import CheckpointFacts, CheckpointKind, JobState, TrackerFacts
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.history_limits import HARD_EVENTS, SOFT_EVENTS
from watchkeeper.domain.values.observation.observation import GateFacts, SealFacts
from watchkeeper.domain.values.people import Actor

MINUTE = timedelta(minutes=1)
QUARTER = timedelta(minutes=15)
FINAL = 2000


def hero(**changes: Any) -> Contract:
    """A hero run of 2,000 steps."""
    return contract(
        **{
            "lane": "hero",
            "goal": "2,000 steps of the EP8 mesh, to see that it recovers",
            "stop": "step 2000; any loss divergence; more than 3 node failures in 24 h",
            "final_step": {"value": FINAL, "source": "trainer.num_train_steps"},
            **changes,
        }
    )


def recorded(history: History) -> list[Event]:
    """Return a history's events with the times that the ledger gives them."""
    return [_occurred(event) for event in history.events]


def _occurred(event: Event) -> Event:
    data = event.data
    if not isinstance(data, InstanceEnded) or data.job.ended_at is None:
        return event
    envelope = event.envelope.model_copy(update={"occurred_at": data.job.ended_at})
    return replace(event, envelope=envelope)


def shown(history: History, step: int, loss: float, **changes: Any) -> TrackerFacts:
    """What the tracker shows now."""
    metrics = {"loss": loss, "tokens_per_second": 31_412.0}
    return tracker(step, heartbeat_at=history.now, metrics=metrics, **changes)


def kept(history: History, step: int, *, ago: timedelta = MINUTE) -> CheckpointFacts:
    """A complete checkpoint, written a while ago; each thousandth is permanent."""
    kind = CheckpointKind.TEMPORARY if step % 1000 else CheckpointKind.PERMANENT
    return checkpoint(step, written_at=history.now - ago, kind=kind)


def watched(
    history: History,
    step: int,
    loss: float,
    *found: CheckpointFacts,
    wait: timedelta = QUARTER,
    **more: Any,
) -> History:
    """Let time pass, and see training go on."""
    history.later(wait)
    history.check(shown=shown(history, step, loss), found=listing(*found), **more)
    return history


def cleared(promised: Contract) -> History:
    """Drafted, refused for want of an approval, approved, asked for again."""
    history = History().draft(promised).later(timedelta(seconds=20))
    history.tell(history.launch_command())
    history.later(4 * MINUTE)
    assert history.run.launch.preflight is not None
    history.tell(
        ApproveLaunch(
            now=history.now,
            actor=DRI,
            digest=history.run.launch.preflight.digest,
            note="Simulated approval: nobody was asked, this is a test",
        )
    )
    return history.later(30 * timedelta(seconds=1))


def launched(promised: Contract | None = None) -> History:
    """From nothing to a job that the orchestrator has."""
    history = cleared(promised or hero()).request().later(timedelta(seconds=4)).confirm()
    return history.later(timedelta(seconds=2)).take_watch()


def trained(promised: Contract | None = None) -> History:
    """Launched, compiling, training, three checks well."""
    history = launched(promised)
    history.later(2 * MINUTE).check(lines=("Starting from scratch",))
    watched(history, 12, 9.812, wait=timedelta(seconds=570))
    first = kept(history, 250)
    watched(history, 288, 7.401, first)
    second = kept(history, 500)
    history.later(QUARTER).check(
        lines=("Progress on:train 560it/2.00kit rate:4.3s/it postfix:loss=6.02",),
        found=listing(first, second),
        without=("tracker",),
    )
    history.later(QUARTER).check(
        lines=("Progress on:train 830it/2.00kit rate:4.3s/it postfix:loss=5.31",),
        found=listing(first, second),
        without=("tracker",),
    )
    permanent = kept(history, 1000)
    return watched(history, 1060, 4.873, second, permanent)


def found_of(history: History, *steps: int) -> list[CheckpointFacts]:
    """The checkpoints of a history, as they were first listed."""
    listed = {
        fact.step: fact
        for event in history.events
        for fact in getattr(event.data, "new_checkpoints", ())
    }
    return [listed.get(step) or kept(history, step) for step in steps]


def crashed(promised: Contract | None = None) -> History:
    """Trained, then killed while step-1100 was half written; a relaunch is decided."""
    history = trained(promised)
    history.later(QUARTER)
    history.check(
        killed(
            ended_at=history.now - 7 * MINUTE - timedelta(seconds=11),
            submission_id=history.run.instances[-1].plan.submission_id,
        ),
        shown=shown(history, 1107, 4.802),
        lines=(
            "Saved checkpoint step-1000",
            "Saving temporary checkpoint at step 1100",
        ),
        found=listing(*found_of(history, 500, 1000), half_written(1100)),
    )
    return history


def resumed(promised: Contract | None = None) -> History:
    """Crashed, relaunched from step-1000, and past where it crashed."""
    history = crashed(promised).later(timedelta(seconds=3)).relaunch()
    found = found_of(history, 500, 1000)
    proof = ("Loading checkpoint from step-1000", "Resuming training from step 1000")
    old = shown(history, 1107, 4.802).model_copy(update={"heartbeat_at": history.now - 8 * MINUTE})
    history.later(2 * MINUTE).check(lines=proof, found=listing(*found), shown=old)
    watched(history, 1043, 4.868, *found, wait=timedelta(seconds=570), lines=proof)
    return watched(history, 1310, 4.431, *found, kept(history, 1250))


def finished(promised: Contract | None = None) -> History:
    """Resumed and ended well."""
    history = resumed(promised)
    final = kept(history.later(40 * MINUTE), FINAL)
    history.check(
        succeeded(
            ended_at=history.now - 2 * MINUTE,
            submission_id=history.run.instances[-1].plan.submission_id,
        ),
        shown=shown(history, 1999, 3.214, state="finished"),
        found=listing(*found_of(history, 1000, 1250), final),
    )
    return history


def seal_facts(history: History, **changes: Any) -> SealFacts:
    """What the sources show of a finished run of 2,000 steps."""
    metrics = {"loss": 3.2144, "eval/bpb": 0.87123, "tokens_per_second": 31_412.0}
    observed = seen(
        at=history.now,
        said=succeeded(),
        shown=tracker(1999, state="finished", heartbeat_at=history.now, metrics=metrics),
        found=listing(*found_of(history, 1000, 1250, FINAL)),
        instance=history.instance,
    )
    return sealable(history.now).model_copy(update={"observation": observed, **changes})


def sealed(promised: Contract | None = None) -> History:
    """The whole story: launch, crash, recovery, end, a blocked seal, a seal."""
    history = finished(promised).later(timedelta(seconds=5))
    blocked = seal_facts(history, commit_found=None)
    history.tell(VerifySeal(now=history.now, actor=LOOP, facts=blocked))
    history.later(timedelta(seconds=30))
    history.tell(VerifySeal(now=history.now, actor=LOOP, facts=seal_facts(history)))
    history.later(timedelta(seconds=40))
    head = f"{history.run.version} sha256:{'5f0a' * 16}"
    history.tell(CompleteSeal(now=history.now, actor=LOOP, head=head))
    return history


def crash_loop() -> History:
    """Killed twice at one step: not relaunched, a human is asked, answers and gives up."""
    history = crashed().later(timedelta(seconds=3)).relaunch()
    found = found_of(history, 500, 1000)
    watched(history, 1041, 4.868, *found, lines=("Resuming training from step 1000",))
    history.fail(
        killed(ended_at=history.now + 4 * MINUTE),
        wait=QUARTER,
        shown=shown(history, 1108, 4.8),
        lines=("Saving temporary checkpoint at step 1100",),
        found=listing(*found, half_written(1100)),
    )
    history.later(6 * 60 * MINUTE)
    history.tell(TakeQuestion(now=history.now, actor=DRI, question="q-1", note="reading the log"))
    history.later(MINUTE)
    note = "Same step twice: suspect the checkpoint writer, see #4711"
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", note=note))
    history.later(MINUTE)
    history.tell(Stop(now=history.now, actor=DRI, reason="superseded by a fixed writer"))
    return history


def blind() -> History:
    """Sources that fail: the tracker, the orchestrator, and the store when it matters."""
    history = trained(hero(checkpoints={"temporary_every": "500 steps"}))
    found = found_of(history, 500, 1000)
    history.later(QUARTER).check(
        shown=shown(history, 1320, 4.6), found=listing(*found), without=("orchestrator",)
    )
    history.later(QUARTER).check(without=("orchestrator", "logs", "tracker", "checkpoints"))
    watched(history, 1322, 4.6, *found)
    watched(history, 1325, 4.6, *found)
    history.fail(
        node_lost(ended_at=history.now + MINUTE),
        shown=shown(history, 1327, 4.59),
        without=("checkpoints",),
    )
    history.fail(node_lost(), wait=2 * MINUTE, step=1327, without=("checkpoints", "logs"))
    history.fail(node_lost(), wait=2 * MINUTE, step=1327, found=listing(*found))
    return history


def alarmed() -> History:
    """Waits too long, resumes from scratch instead of where it was told: findings, a question."""
    history = crashed().later(timedelta(seconds=3)).relaunch()
    found = listing(*found_of(history, 500, 1000))
    pending = job(JobState.PENDING)
    history.later(2 * MINUTE).check(pending, found=found)
    history.later(31 * MINUTE).check(pending, found=found)
    history.later(QUARTER).check(lines=("Starting from scratch",), found=found, step=3)
    history.later(QUARTER).check(
        job(JobState.NOT_FOUND), lines=("Starting from scratch",), found=found, step=30
    )
    return history


def spoken() -> History:
    """Everything that people say: amendment, note, correction, forced watch, consent, stop."""
    history = History().draft(hero(final_step={"value": 1999})).later(MINUTE)
    amended = hero(title="Grug MoE 1e23 EP8, second try", **DIRTY)
    history.tell(AmendContract(now=history.now, actor=DRI, contract=amended))
    history.later(MINUTE).record(consented_patch(history.now), actor=DRI)
    history.approve(dirty()).later(MINUTE).request(dirty()).take_watch()
    history.later(timedelta(seconds=1)).confirm().train(12)
    history.later(MINUTE).tell(
        AddNote(now=history.now, actor=AGENT, text="loss looks low\n### 2026 - forged\n<!--")
    )
    history.later(MINUTE)
    text = "it was step 11, not 12; the `tracker` counts from 0"
    history.tell(Correct(now=history.now, actor=DRI, corrects=11, text=text))
    history.later(MINUTE).tell(
        TakeWatch(now=history.now, actor=DRI, holder=RIVAL, same_home=False, force=True)
    )
    released = ReleaseWatch(
        now=history.now, actor=LOOP, token=history.run.watch.token, reason="the watch was stopped"
    )
    history.later(MINUTE).tell(released)
    history.later(MINUTE).take_watch().train(40).take_watch()
    history.record(
        ConsentGiven(
            consent="c-9",
            action="delete_checkpoint",
            target="step-250",
            expires_at=history.now + timedelta(hours=1),
            note="",
        ),
        actor=DRI,
    )
    history.later(MINUTE).tell(Stop(now=history.now, actor=DRI, reason="enough was learned"))
    history.fail(job(JobState.STOPPED, ended_at=history.now), wait=MINUTE, step=60)
    return history


def refused() -> History:
    """Blocked at the gate, then refused by the orchestrator, then given up."""
    history = History().draft(hero(tracker={"id": ""})).later(MINUTE)
    history.tell(history.launch_command(GateFacts(env_missing=("WANDB_API_KEY",))))
    history.later(MINUTE)
    history.tell(AmendContract(now=history.now, actor=DRI, contract=hero()))
    history.later(MINUTE).approve().request()
    reason = "ray http://127.0.0.1:8265: runtime_env: working_dir\n# not found"
    history.later(MINUTE).tell(
        ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i1", reason=reason)
    )
    history.later(MINUTE)
    history.tell(Abandon(now=history.now, actor=DRI, reason="wrong cluster"))
    return history


def answered() -> History:
    """A code bug, a human's relaunch, and a checkpoint that is gone when it is wanted."""
    history = trained()
    found = found_of(history, 500, 1000)
    trace = (
        "Traceback (most recent call last):",
        '  File "train.py", line 7, in step',
        "ValueError: bad batch <script>alert(1)</script> at step 1100",
    )
    history.fail(exited(1), shown=shown(history, 1101, 4.8), lines=trace, found=listing(*found))
    history.later(20 * MINUTE)
    history.tell(
        AnswerQuestion(
            now=history.now, actor=DRI, question="q-1", answer="relaunch", note="data host rebooted"
        )
    )
    gone = clear_for(1000, source=half_written(1000))
    history.later(MINUTE).tell(history.relaunch_command(gone))
    return history


def held() -> History:
    """A relaunch that the gate blocks, since the variables were unset meanwhile."""
    history = crashed().later(MINUTE)
    facts = clear_for(1000, env_missing=("WANDB_API_KEY",))
    history.tell(history.relaunch_command(facts))
    return history


def adrift() -> History:
    """Logs to the agreed tracker run first, and under another id after a relaunch: held."""
    history = trained()
    found = listing(*found_of(history, 500, 1000))
    here = (
        "wandb: Run data is saved locally in /srv/wandb/run-20261118_173500-grug-moe-1e23-ep8",
        "wandb: Syncing run grug-moe-1e23-ep8",
        "wandb: \U0001f680 View run at https://wandb.ai/acme/grug/runs/grug-moe-1e23-ep8",
    )
    watched(history, 1300, 4.7, *found.checkpoints, lines=here)
    history.fail(node_lost(ended_at=history.now + MINUTE), step=1310, found=found)
    history.later(MINUTE).relaunch()
    elsewhere = ("wandb: View run `x` at: https://wandb.ai/acme/grug/runs/lunar_sky",)
    history.later(QUARTER).check(step=1320, lines=elsewhere, found=found)
    history.later(QUARTER).check(step=1330, found=found, without=("tracker",))
    history.fail(node_lost(ended_at=history.now + MINUTE), step=1340, found=found)
    return history


def permitted() -> History:
    """Who may do what: waivers, a revoked approval, proposals, consents, and a waived seal."""
    history = History().draft(contract(watch={"holder": ""})).later(MINUTE)
    history.tell(history.launch_command())

    def give(command: type[RunCommand], actor: Actor = DRI, **said: Any) -> None:
        told = command.model_validate({"now": history.later(MINUTE).now, "actor": actor, **said})
        outcome = history.when(told).outcome
        records = outcome.records if isinstance(outcome, Refused) else outcome
        history.record(*records, actor=actor)

    def stop(reason: str, actor: Actor = AGENT) -> None:
        give(Stop, actor, reason=reason)

    give(Waive, subject="L13", reason="watched by hand", until=history.now + 8 * QUARTER)
    give(Revoke, name="w-1", reason="nobody has the time")
    give(Waive, subject="L13", reason="the night shift has it")
    history.tell(history.launch_command())
    assert history.run.launch.preflight is not None
    plan = history.run.launch.preflight.digest[:12]
    give(ApproveLaunch, AGENT, digest=plan)
    give(ApproveLaunch, DRI, digest=plan)
    give(Revoke, name="a-1", reason="the mesh is wrong\n### 2026 - forged")
    give(ApproveLaunch, DRI, digest=plan, note="the mesh is right after all")
    history.later(MINUTE).request().take_watch().confirm()
    kept = listing(checkpoint(1000, written_at=history.now + MINUTE))
    history.train(1000, found=kept)
    stop("loss looks low")
    give(Revoke, name="p-1", reason="it is the warm-up")
    stop("loss looks low\n### 2026 - forged, for an hour")
    give(GiveConsent, proposal="p-2", note="if it lasts")
    give(Revoke, name="c-1")
    stop("the loss diverges")
    give(GiveConsent, proposal="p-3")
    stop("the loss diverges")
    history.fail(job(JobState.STOPPED), step=1100, found=kept)
    ended = tracker(1100, state="finished", heartbeat_at=history.now)
    seen_now = seen(at=history.now, said=None, shown=ended, found=kept)
    facts = sealable(history.now, observation=seen_now)
    lacks = ("successful end", "tracker step", "final checkpoint step-5155")
    give(VerifySeal, AGENT, facts=facts)
    give(VerifySeal, AGENT, facts=facts, waive=lacks, reason="stopped at the agreed step")
    for proposal in ("p-4", "p-5", "p-6"):
        give(GiveConsent, proposal=proposal, note="agreed")
    give(VerifySeal, AGENT, facts=facts, waive=lacks, reason="stopped at the agreed step")
    return history


def long_told() -> History:
    """Its history passes both limits; the numbers are told, for nobody makes so many events."""
    history = trained()
    for step, limit, most in ((1200, "soft", SOFT_EVENTS), (1300, "hard", HARD_EVENTS)):
        history.later(QUARTER).check(shown=shown(history, step, 4.7), without=("checkpoints",))
        passed = {"limit": limit, "events": most + 3, "most": most}
        history.record(HistoryLimitPassed.model_validate(passed))
    return history


TALES: dict[str, Callable[[], History]] = {
    "sealed": sealed,
    "crash_loop": crash_loop,
    "blind": blind,
    "alarmed": alarmed,
    "spoken": spoken,
    "refused": refused,
    "answered": answered,
    "held": held,
    "adrift": adrift,
    "permitted": permitted,
    "manoeuvred": manoeuvred,
    "superseded": superseded,
    "adopted": adopted,
    "signalled": signalled,
    "mended": mended,
    "rethought": rethought,
    "stood_still": stood_still,
    "thought_along": thought_along,
    "long_told": long_told,
}
"""Every tale by its name; each has a golden logbook."""


def events_of(tales: Iterable[str] = TALES) -> list[Event]:
    """Return the events of several tales."""
    return [event for name in tales for event in recorded(TALES[name]())]
