"""The events of a run from its contract to the end of an instance."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import JobFacts, Step
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import GateFinding, LaunchPlan
from watchkeeper.domain.values.durations import Duration
from watchkeeper.domain.values.observation.observation import GateFacts

# --- Contract and gate ----------------------------------------------------------------------------


class RunDrafted(Fact):
    """A run was given its contract; nothing is launched yet."""

    topic: ClassVar[str] = "run.drafted.1"
    contract: Contract


class ContractAmended(Fact):
    """The contract was changed before the first launch. Earlier approvals are void.

    Attributes:
        contract: The contract as changed, complete.
        changed: Keys whose values differ, such as `final_step.value`.
    """

    topic: ClassVar[str] = "run.contract_amended.1"
    contract: Contract
    changed: tuple[str, ...]


class PreflightRecorded(Fact):
    """A launch plan was checked against the launch rules.

    Attributes:
        plan: The launch plan that the rules judged.
        digest: The plan's identity, which an approval names.
        findings: One answer for each rule.
        facts: The facts that the rules judged; null in events of earlier releases.
    """

    topic: ClassVar[str] = "run.preflight_recorded.1"
    plan: LaunchPlan
    digest: str
    findings: tuple[GateFinding, ...]
    facts: GateFacts | None = None


class LaunchApproved(Fact):
    """A human approved one plan and the relaunches that keep its identity.

    Attributes:
        approval: The approval's short name, such as `a-1`.
        digest: The plan that was approved.
        identity: The identity that a relaunch must keep to be covered by the approval.
        note: The approver's words.
    """

    topic: ClassVar[str] = "run.launch_approved.1"
    approval: str
    digest: str
    identity: str
    note: str


# --- Instances ------------------------------------------------------------------------------------


class LaunchRequested(Fact):
    """An instance will be submitted under the recorded id. Nothing is submitted yet.

    Attributes:
        plan: The instance that is launched.
        approval: The approval that allows the launch; empty if a waiver of L11 allows it.
        preflight: Version of the preflight event in this run's stream.
        reason: `launch`, or the rule that decided a relaunch.
        waiver: The waiver of L11 that allows the launch; empty if a human approved it.
        requester: Who wanted the first launch; empty if that is the event's actor.
    """

    topic: ClassVar[str] = "run.launch_requested.1"
    plan: LaunchPlan
    digest: str
    approval: str
    preflight: PositiveInt
    reason: str
    waiver: str = ""
    requester: str = ""


class InstanceLaunched(Fact):
    """The orchestrator confirmed that it has the job.

    Attributes:
        instance: `i1`, `i2` and so on.
        submission_id: The id fixed in `LaunchRequested`.
        launched_at: When the orchestrator accepted the job, or when the job was first seen there.
        dri: The directly responsible individual.
        command: The argument vector, without secrets.
        script: The experiment's script, when the command shows one.
        hardware: Type of the machines, as the contract names it.
        topology: How the machines are connected, as the contract says.
        patch: Digest of a dirty tree's changes; empty if they are not recorded.
        patch_kept: SHA-256 of the stored patch under `evidence/`, without secrets; empty if not
            stored.
        dirty_consent: The consent by which a dirty tree was launched; empty without one.
        initialize_from: The contract's value. This instance starts from `resume_from`.
        checkpoint_policy: The checkpoint policy as a sentence.
        watch_holder: The holder of the watch.
        adopted: It was launched elsewhere, and its identity was compared with the contract.
        watch_cadence: The interval between checks.
    """

    topic: ClassVar[str] = "run.instance_launched.1"
    instance: str
    submission_id: str
    launched_at: AwareDatetime
    dri: str
    command: tuple[str, ...]
    script: str
    orchestrator: str
    cluster: str
    git_sha: str
    branch: str
    dirty: bool
    patch: str = ""
    patch_kept: str = ""
    dirty_consent: str = ""
    bundle: str
    hardware: str
    topology: str
    initialize_from: str
    tracker_id: str
    display_name: str
    output_root: str
    resume_from: str
    resume_step: Step | None
    final_step: Step
    checkpoint_policy: str
    watch_holder: str
    watch_cadence: Duration
    adopted: bool = False


class LaunchRefused(Fact):
    """The orchestrator definitely refused the job. Nothing runs under this id."""

    topic: ClassVar[str] = "run.launch_refused.1"
    instance: str
    submission_id: str
    reason: str


class InstanceEnded(Fact):
    """The orchestrator reported a terminal state of the instance. Nothing else ends an instance.

    Attributes:
        job: The orchestrator's last report, complete.
        step: The last step that any source showed; null if no source showed one.
    """

    topic: ClassVar[str] = "run.instance_ended.1"
    instance: str
    job: JobFacts
    step: Step | None
    step_uncertainty: int = 0


LaunchEvent = (
    RunDrafted
    | ContractAmended
    | PreflightRecorded
    | LaunchApproved
    | LaunchRequested
    | InstanceLaunched
    | LaunchRefused
    | InstanceEnded
)


class OutputRootClaimed(Fact):
    """A run's instance reserved an output root. No other run may write below it."""

    topic: ClassVar[str] = "roots.claimed.1"
    root: str
    run: str
    instance: str


class OutputRootReleased(Fact):
    """The instance that held an output root has certainly ended."""

    topic: ClassVar[str] = "roots.released.1"
    root: str
    run: str
    instance: str
    why: str


RootEvent = OutputRootClaimed | OutputRootReleased


@dataclass(frozen=True, slots=True)
class LaunchState:
    """The approvals and preflights that allow a run's launches.

    Attributes:
        preflight: The newest preflight of the current contract; `None` without one.
        preflight_version: The version of its event.
        cleared_by: The approval or waiver of the newest launch.
        launched_by: The human who requested the first launch; empty if no human did.
        requester: Who wanted the first launch; empty if that is `launched_by`.
        relaunch_times: When relaunches were requested, oldest first.
    """

    preflight: PreflightRecorded | None = None
    preflight_version: int = 0
    cleared_by: str = ""
    launched_by: str = ""
    requester: str = ""
    relaunch_times: tuple[datetime, ...] = ()
