"""The contract: what a run promises before it is launched."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, PositiveInt, StringConstraints, field_validator, model_validator

from watchkeeper.domain.values.basic import Slug, Value
from watchkeeper.domain.values.contract.detect import DetectPart
from watchkeeper.domain.values.contract.git_names import LOGBOOK_FOLDER
from watchkeeper.domain.values.contract.live import LivePart
from watchkeeper.domain.values.contract.parts import IGNORED, ModelPart, PolicyPart, SignalsPart
from watchkeeper.domain.values.contract.recover import RecoverPart
from watchkeeper.domain.values.contract.sources import HostsPart, TelemetryPart
from watchkeeper.domain.values.contract.stopping import StoppingPart
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.durations import Duration

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
RefName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=200
    ),
]
"""A branch or tag name, more restricted than in git itself: no blanks, no `..`, no `@{`."""

GitSha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Lane(StrEnum):
    """What kind of run it is; chooses the policy defaults."""

    HERO = "hero"
    DAILY = "daily"
    CANARY = "canary"
    ORDINARY = "ordinary"


class OrchestratorPart(Value):
    """Where jobs run.

    Attributes:
        kind: `ray` or `local`.
        address: Ray's dashboard URL; for `local` the folder of its jobs, empty for the home's own.
        cluster: Its name in records, such as `us-central2`.
    """

    kind: Literal["ray", "local"]
    address: str = ""
    cluster: str = "local"

    @model_validator(mode="after")
    def _ray_needs_an_address(self) -> "OrchestratorPart":
        if self.kind == "ray" and not self.address.startswith(("http://", "https://")):
            raise ValueError(
                "address: expected the URL of Ray's dashboard, for example http://127.0.0.1:8265"
            )
        return self


class CodePart(Value):
    """Which code is launched, and where it can be found again.

    Attributes:
        remote: Git remote that holds the commit; seal tags are pushed there.
        git_sha: The exact launch commit.
        branch: The branch it was taken from.
        dirty: Whether the tree had changes that are not in the commit.
        bundle: Identity of a source bundle or container, when it can differ from the commit.
        container: Image with its digest, such as `registry/name@sha256:...`; compared by digest.
        built_from: The commit that bundle or container was built from.
        worktree: Folder of a local checkout that the launch is made from; it is held against the
            commit (L2). For `local` jobs `working_dir` when empty.
        script: The experiment's script, when the command does not show it.
        config: Files of the repository that hold the launched configuration: JSON, YAML or TOML;
            and lock files of packages, such as `uv.lock`. A relaunch is compared with them (L14).
        ignore: Globs of changed files that cannot affect training, so that they do not make a
            tree dirty (L2). `*` also matches `/`.
    """

    remote: Text
    git_sha: GitSha
    branch: RefName = "main"
    dirty: bool = False
    bundle: str = ""
    container: str = ""
    built_from: GitSha | Literal[""] = ""
    worktree: str = ""
    script: str = ""
    config: tuple[RefName, ...] = ()
    ignore: tuple[str, ...] = IGNORED


class HardwarePart(Value):
    """What it runs on, as people name it.

    Attributes:
        type: Such as `v5p-1024`.
        topology: Slices or nodes, such as `1 slice`.
        count: How many slices or nodes.
        region: Where the machines are, such as `us-central2`; by the cluster's name when empty.
    """

    type: str = ""
    topology: str = ""
    count: PositiveInt | None = None
    region: str = ""


NOBODY_SAYS = "nobody says"
"""The value of `source` if no final step is known, as when observations of others are judged."""


class FinalStepPart(Value):
    """The step at which training is complete, and how it was resolved.

    Attributes:
        value: Exact; never read from a progress bar.
        source: Config key or code that says so, such as `trainer.num_train_steps`.
    """

    value: PositiveInt
    source: str = ""

    @property
    def known(self) -> int | None:
        """The final step, or None if it is not known."""
        return None if self.source == NOBODY_SAYS else self.value


class CheckpointPart(Value):
    """What is kept for recovery and for good.

    Attributes:
        root: Folder of `step-N`; `<output_root>/checkpoints` when empty.
        permanent_every_steps: Interval of checkpoints kept for good.
        temporary_every: Interval of rolling ones, by time or by steps.
        keep_last: Rollback depth: how many temporary ones are kept.
        milestones: Steps whose checkpoints are kept whatever else is deleted.
    """

    root: str = ""
    permanent_every_steps: PositiveInt | None = None
    temporary_every: str = ""
    keep_last: PositiveInt | None = None
    milestones: tuple[PositiveInt, ...] = ()


def _valid_git_name(name: str) -> str:
    parts = name.split("/")
    if ".." in name or any(part.endswith((".lock", ".")) for part in parts):
        raise ValueError(
            "expected a name that git takes: no `..`, no part ending in .lock or a dot"
        )
    return name


class RetryPart(Value):
    """Who relaunches, and how often.

    Attributes:
        owner: `watchkeeper` or `orchestrator`, never both.
        budget: Relaunches allowed within the window.
        window: Rolling time over which they count.
    """

    owner: Literal["watchkeeper", "orchestrator"] | None = None
    budget: Annotated[int, Field(ge=0, le=1000)] = 3
    window: Duration = timedelta(hours=24)

    @field_validator("window")
    @classmethod
    def _long_enough(cls, value: timedelta) -> timedelta:
        if not timedelta(minutes=1) <= value <= timedelta(days=366):
            raise ValueError("expected a duration between 1m and 366d, such as 24h")
        return value


class ResumePart(Value):
    """How a relaunch is told where to resume.

    Attributes:
        argument: Option appended to the command with the checkpoint's path. The variable
            `WATCHKEEPER_RESUME_FROM` carries the path as well, always.
    """

    argument: str = ""


class WatchPart(Value):
    """Who watches, and how often.

    Attributes:
        holder: Principal that holds the watch; `watchkeeper` is the built-in loop.
        declined: Reason for which no watch is arranged; empty when one is.
        after_submit: Wait before the first check after a submit.
        stabilizing: Wait between checks until training is seen.
        cadence: Wait between checks from then on; 15 min for the hero lane, else 570 s.
        pending_notify: A job that waits longer than this opens a finding (H6).
    """

    holder: str = ""
    declined: str = ""
    after_submit: Duration = timedelta(seconds=120)
    stabilizing: Duration = timedelta(seconds=570)
    cadence: Duration | None = None
    pending_notify: Duration = timedelta(minutes=30)

    @field_validator("after_submit", "stabilizing", "cadence", "pending_notify")
    @classmethod
    def _positive(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and not timedelta(milliseconds=100) <= value <= timedelta(days=1):
            raise ValueError("expected a duration between 0.1s and 24h")
        return value


class SealPart(Value):
    """How the run is closed.

    Attributes:
        auto: Seal without being asked once it finished; hero and daily do unless told otherwise.
        tag: Name of the git tag; the lane's form when empty.
    """

    auto: bool | None = None
    tag: RefName | Literal[""] = ""

    @field_validator("tag")
    @classmethod
    def _valid_tag(cls, value: str) -> str:
        return _valid_git_name(value)


class LogbookPart(Value):
    """Where the logbook is committed and pushed.

    Attributes:
        remote: Git remote; the code's own when empty.
        branch: Branch that receives the commits.
        path: A `.md` file in a folder that the home allows; `.agents/logbooks/<run>.md` if empty.
    """

    remote: str = ""
    branch: RefName = "main"
    path: str = ""

    @field_validator("path")
    @classmethod
    def _inside_the_repository(cls, value: str) -> str:
        parts = value.split("/")
        if value.startswith("/") or value.endswith("/") or {"..", ".", ".git"} & set(parts):
            raise ValueError("expected a file path inside the repository, such as docs/run.md")
        return value


class Contract(Value):
    """One run's contract, whole.

    What a launch rule must be able to find missing is optional here and judged by preflight.

    Attributes:
        run: The run's slug, under which everything is kept.
        title: Heading of the logbook; the slug when empty.
        lane: Chooses the defaults of cadence, seal and tag.
        dri: The directly responsible individual, who is asked.
        goal: What the run is for.
        stop: When to stop, and when to ask.
        issue: URL of the issue, or `none` as a stated waiver.
        labels: Labels of the issue, where the tracker of issues has them.
        timezone: IANA zone in which times are shown.
        command: The exact argument vector.
        env: Plain environment variables; never secrets.
        env_from: Names of variables that are read at submit. watchkeeper does not store their
            values, Ray does.
        working_dir: Folder that the job starts in; empty for the orchestrator's default. On Ray it
            is a path on the cluster's machines.
        output_root: Where the run writes; only one live run may.
        output_region: Region of the output root's bucket; by the bucket's name when empty.
        initialize_from: Checkpoint that the first instance starts from; empty for none.
        ancestors: Output roots of the runs that this one descends from, as the DRI states them.
    """

    run: Slug
    title: str = ""
    lane: Lane
    dri: str = ""
    goal: Text
    stop: Text
    issue: Text
    labels: tuple[str, ...] = ()
    timezone: str = "UTC"
    command: tuple[str, ...]
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    working_dir: str = ""
    orchestrator: OrchestratorPart
    code: CodePart
    hardware: HardwarePart = HardwarePart.model_construct()
    tracker: TrackerPart
    output_root: Text
    output_region: str = ""
    initialize_from: str = ""
    ancestors: tuple[str, ...] = ()
    final_step: FinalStepPart
    model: ModelPart = ModelPart.model_construct()
    checkpoints: CheckpointPart = CheckpointPart.model_construct()
    retries: RetryPart = RetryPart.model_construct()
    resume: ResumePart = ResumePart.model_construct()
    watch: WatchPart = WatchPart.model_construct()
    stopping: StoppingPart = StoppingPart.model_construct()
    seal: SealPart = SealPart.model_construct()
    logbook: LogbookPart = LogbookPart.model_construct()
    policy: PolicyPart = PolicyPart.model_construct()
    signals: SignalsPart = SignalsPart.model_construct()
    detect: DetectPart = DetectPart.model_construct()
    live: LivePart = LivePart.model_construct()
    telemetry: TelemetryPart = TelemetryPart.model_construct()
    hosts: HostsPart = HostsPart.model_construct()
    recover: RecoverPart = RecoverPart.model_construct()

    @field_validator("run")
    @classmethod
    def _names_a_tag(cls, value: str) -> str:
        return _valid_git_name(value)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(
                "expected an IANA time zone such as UTC or America/Los_Angeles"
            ) from error
        return value

    @field_validator("issue")
    @classmethod
    def _url_or_none(cls, value: str) -> str:
        if value != "none" and not value.startswith(("http://", "https://")):
            raise ValueError("expected the issue's URL, or none as a stated waiver")
        return value


HERO_CADENCE = timedelta(minutes=15)
"""Time between checks of a hero run, from the written procedure for hero runs."""

CADENCE = timedelta(seconds=570)
"""Time between checks of every other lane, from the written monitoring loop."""


def cadence_of(contract: Contract) -> timedelta:
    """Return the wait between checks of a run that trains."""
    if contract.watch.cadence is not None:
        return contract.watch.cadence
    return HERO_CADENCE if contract.lane is Lane.HERO else CADENCE


def checkpoint_root_of(contract: Contract) -> str:
    """Return the folder that holds the run's `step-N` checkpoints."""
    return contract.checkpoints.root or f"{contract.output_root.rstrip('/')}/checkpoints"


def logbook_remote_of(contract: Contract) -> str:
    """Return the git remote that receives the logbook."""
    return contract.logbook.remote or contract.code.remote


def logbook_path_of(contract: Contract) -> str:
    """Return the logbook's path inside its repository."""
    return contract.logbook.path or f"{LOGBOOK_FOLDER}/{contract.run}.md"


def seals_itself(contract: Contract) -> bool:
    """Return whether the run is sealed automatically."""
    if contract.seal.auto is not None:
        return contract.seal.auto
    return contract.lane in (Lane.HERO, Lane.DAILY)


def seal_tag_of(contract: Contract, launched_on: str) -> str:
    """Return the name of the seal tag.

    Args:
        contract: The run's contract.
        launched_on: Day of the first launch as YYYYMMDD, in the contract's zone.
    """
    if contract.seal.tag:
        return contract.seal.tag
    if contract.lane is Lane.HERO:
        return f"hero/{contract.run}/final"
    if contract.lane is Lane.DAILY:
        return f"ferry/daily/{launched_on}/{contract.run}"
    return f"run/{contract.run}/final"
