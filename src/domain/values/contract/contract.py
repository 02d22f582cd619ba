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
    """The kind of run. It chooses the policy defaults."""

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
    """The launched code and its places.

    Attributes:
        remote: Git remote that holds the commit; seal tags are pushed there.
        git_sha: The exact launch commit.
        branch: The branch of the commit.
        dirty: Whether the checkout had uncommitted changes.
        bundle: Identity of the source bundle, if it can differ from the commit.
        container: Image with its digest, such as `registry/name@sha256:...`; compared by digest.
        built_from: The commit that bundle or container was built from.
        worktree: Folder of the local checkout for the launch, which is compared with the commit
            (L2). Empty means `working_dir` for `local` jobs.
        script: The experiment's script, if the command does not show it.
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
    """The machines of the run.

    Attributes:
        type: Such as `v5p-1024`.
        topology: Slices or nodes, such as `1 slice`.
        count: How many slices or nodes.
        region: The region of the machines, such as `us-central2`; taken from the cluster's name if
            empty.
    """

    type: str = ""
    topology: str = ""
    count: PositiveInt | None = None
    region: str = ""


NOBODY_SAYS = "nobody says"
"""The value of `source` if no final step is known."""


class FinalStepPart(Value):
    """The final step, and where it was found.

    Attributes:
        value: Exact; never read from a progress bar.
        source: The config key or code with the value, such as `trainer.num_train_steps`.
    """

    value: PositiveInt
    source: str = ""

    @property
    def known(self) -> int | None:
        """The final step, or None if it is not known."""
        return None if self.source == NOBODY_SAYS else self.value


class CheckpointPart(Value):
    """Which checkpoints are kept, for recovery and permanently.

    Attributes:
        root: Folder of `step-N`; `<output_root>/checkpoints` if empty.
        permanent_every_steps: Interval of permanent checkpoints, in steps.
        temporary_every: Interval of temporary checkpoints, as a time or in steps.
        keep_last: Rollback depth: how many temporary ones are kept.
        milestones: Only in contracts of older releases; nothing uses it.
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
    """How a relaunch passes the resume checkpoint to the job.

    Attributes:
        argument: Option appended to the command with the checkpoint's path. The variable
            `WATCHKEEPER_RESUME_FROM` carries the path as well, always.
    """

    argument: str = ""


class WatchPart(Value):
    """Who watches, and how often.

    Attributes:
        holder: The principal that holds the watch. `watchkeeper` is the built-in loop.
        declined: Why no watch is arranged; empty if a watch is arranged.
        after_submit: Wait before the first check after a submit; `cadence` if that is shorter.
        stabilizing: Wait between checks until training starts.
        cadence: Wait between checks of a training run; 15 min for the hero lane, else 570 s.
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
        auto: Whether to seal automatically after success. The default is yes for hero and daily.
        tag: Name of the git tag; the lane's default if empty.
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
        remote: Git remote; the code's remote if empty.
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
    """The contract of one run.

    Values that launch rules check are optional here. Preflight reports them if they are missing.

    Attributes:
        run: The run's slug.
        title: Heading of the logbook; the slug if empty.
        lane: Chooses the defaults of cadence, seal and tag.
        dri: The directly responsible individual, who gets the questions.
        goal: The purpose of the run.
        stop: When to stop, and when to ask.
        issue: URL of the issue, or `none`.
        labels: Only in contracts of older releases; nothing uses it.
        timezone: IANA zone in which times are shown.
        command: The exact argument vector.
        env: Plain environment variables; never secrets.
        env_from: Names of variables that are read at submit. watchkeeper does not store their
            values, Ray does.
        working_dir: Folder that the job starts in; empty for the orchestrator's default. On Ray it
            is a path on the cluster's machines.
        output_root: The folder that the run writes to. Only one live run may use it.
        output_region: Region of the output root's bucket; taken from the bucket's name if empty.
        initialize_from: Checkpoint that the first instance starts from; empty to start from
            scratch.
        ancestors: Output roots of earlier runs that this run continues.
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


UNUSED_KEYS = ("labels", "checkpoints.milestones")
"""Keys of older contracts that nothing uses. A contract file must not have them."""
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
