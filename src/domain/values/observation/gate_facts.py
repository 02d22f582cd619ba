"""The outside facts for the launch rules, one value for each source.

A value is present only if its source answered. The reading of the same name says so.
"""

from pydantic import AwareDatetime

from watchkeeper.domain.values.basic import Step, Value
from watchkeeper.domain.values.people import ActorKind

GIT, WORKTREE, CONFIG = "git", "worktree", "config"
STORE, TRACKER, ORCHESTRATOR = "store", "tracker", "orchestrator"
LOGBOOK = "logbook"
HOME, HARDWARE, BUNDLE = "home", "hardware", "bundle"
"""Names of the sources of a launch, as in their readings."""


NOT_THERE = "(missing)"
"""The value of a configuration file that does not exist, under the file's own name."""


class RepositoryFacts(Value):
    """The code remote's facts about the launch commit.

    Attributes:
        commit_found: Whether a branch or tag of the remote reaches the commit.
        branches: Branches that reach the commit, sorted, at most 20.
        branch_head: The head of the contract's branch; empty if the branch does not exist.
        on_branch: Whether the contract's branch reaches the commit.
    """

    commit_found: bool
    branches: tuple[str, ...] = ()
    branch_head: str = ""
    on_branch: bool = False


class WorktreeFacts(Value):
    """The local checkout of a launch, or the folder that the job starts in.

    Attributes:
        path: Its top folder.
        head: The commit that is checked out; empty if the folder does not exist.
        branch: The checked out branch; empty without one.
        upstream: The remote branch that it follows; empty without one.
        behind: Commits that the upstream has and the checkout lacks, as of the last fetch there.
        changed: Changed or untracked files that can affect training, sorted, at most 50.
        changed_total: The number of these files.
        ignored_total: The number of changed files that `code.ignore` excludes.
        patch: SHA-256 of the changes that can affect training; empty without changes.
        kept: SHA-256 of the scrubbed patch under `evidence/`; empty if no patch was kept.
    """

    path: str
    head: str
    branch: str = ""
    upstream: str = ""
    behind: int = 0
    changed: tuple[str, ...] = ()
    changed_total: int = 0
    ignored_total: int = 0
    patch: str = ""
    kept: str = ""


class StoreFacts(Value):
    """The facts about the output root's place.

    Attributes:
        region: The bucket's region as the store names it; empty if unknown.
        complete: Steps of existing complete checkpoints below the root, newest last.
        written: The newest file below the root; empty without one.
        written_at: When it was written, by the store's clock.
    """

    region: str = ""
    complete: tuple[Step, ...] = ()
    written: str = ""
    written_at: AwareDatetime | None = None


class TrackerNames(Value):
    """The tracker's facts about the requested identity.

    Attributes:
        others: Ids of other runs with the same display name, at most 20.
        shown_name: The current display name of the id; empty for a new id.
    """

    others: tuple[str, ...] = ()
    shown_name: str = ""


class LogbookFacts(Value):
    """Whether the logbook can be pushed before a submit.

    Attributes:
        pushed: Whether this run's logbook is on the remote.
        refused: Why the push is refused; empty if it is not.
        after_approval: Whether nothing was sent because no human approved the launch yet.
    """

    pushed: bool
    refused: str = ""
    after_approval: bool = False


class HomeFacts(Value):
    """This home's facts about a contract's principals and about its watch.

    Attributes:
        kinds: The kind of each listed principal.
        watched: Whether a watch loop runs in this home.
    """

    kinds: dict[str, ActorKind] = {}
    watched: bool = False


class HardwareFacts(Value):
    """The machines of an orchestrator. An autoscaling orchestrator may have no machines yet.

    Attributes:
        machines: The number of live machines.
        cpus: The CPUs of all machines together.
        accelerators: The number of accelerators by type, such as `TPU-V4`.
    """

    machines: int = 0
    cpus: int = 0
    accelerators: dict[str, int] = {}


class BundleFacts(Value):
    """Whether the orchestrator holds the stated source bundle.

    Attributes:
        there: Whether it holds the bundle now.
    """

    there: bool


class Lineage(Value):
    """This ledger's facts about the checkpoint to start from.

    Attributes:
        run: The recorded run that owns its checkpoint root; empty if no run does.
        validated: Whether that run validated it.
        rejected: Why that run rejected it; empty if it did not.
        left: Why that run abandoned its lineage, for example by a rollback; else empty.
        left_at: When the lineage was abandoned. Earlier checkpoints belong to it.
        unread: Recorded runs that cannot be read, so that their rejections are unknown.
    """

    run: str = ""
    validated: bool = False
    rejected: str = ""
    left: str = ""
    left_at: AwareDatetime | None = None
    unread: tuple[str, ...] = ()
