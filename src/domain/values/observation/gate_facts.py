"""What the launch rules read outside, one value for each source.

A value is present only if its source answered. The reading of the same name records whether it did.
"""

from pydantic import AwareDatetime

from watchkeeper.domain.values.basic import Step, Value
from watchkeeper.domain.values.people import ActorKind

GIT, WORKTREE, CONFIG = "git", "worktree", "config"
STORE, TRACKER, ORCHESTRATOR = "store", "tracker", "orchestrator"
LOGBOOK = "logbook"
HOME, HARDWARE, BUNDLE = "home", "hardware", "bundle"
"""Names of the sources of a launch, as their readings carry them."""


NOT_THERE = "(missing)"
"""The value of a configuration file that does not exist, under the file's own name."""


class RepositoryFacts(Value):
    """What the code's remote says about the launch commit.

    Attributes:
        commit_found: A branch or tag of the remote reaches it.
        branches: Branches that reach it, sorted, at most 20.
        branch_head: Where the contract's branch is; empty while there is none of this name.
        on_branch: The contract's branch reaches it.
    """

    commit_found: bool
    branches: tuple[str, ...] = ()
    branch_head: str = ""
    on_branch: bool = False


class WorktreeFacts(Value):
    """A local checkout that the launch is made from, or that the job starts in.

    Attributes:
        path: Its top folder.
        head: The commit that is checked out; empty if the folder does not exist.
        branch: The branch that is checked out; empty when none is.
        upstream: The remote branch that it follows; empty for none.
        behind: Commits that the upstream has and the checkout lacks, as of the last fetch there.
        changed: Changed or untracked files that can affect training, sorted, at most 50.
        changed_total: How many these are.
        ignored_total: How many more changed, which by `code.ignore` cannot affect training.
        patch: SHA-256 of what changed in those that can; empty when nothing did.
        kept: SHA-256 of the scrubbed patch under `evidence/`; empty where none was kept.
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
    """What is known of the place of the output root.

    Attributes:
        region: The bucket's region in the store's own words; empty where it says none.
        complete: Steps of complete checkpoints that lie below the root already, newest last.
        written: The newest file that was found below the root; empty where none was.
        written_at: When it was written, by the store's clock.
    """

    region: str = ""
    complete: tuple[Step, ...] = ()
    written: str = ""
    written_at: AwareDatetime | None = None


class TrackerNames(Value):
    """How the tracker knows the identity that is asked for.

    Attributes:
        others: Ids of other runs that bear the same display name, at most 20.
        shown_name: The name that the id bears there already; empty while it is new.
    """

    others: tuple[str, ...] = ()
    shown_name: str = ""


class LogbookFacts(Value):
    """Whether the logbook gets through before anything is submitted.

    Attributes:
        pushed: This run's logbook stands on the remote.
        refused: Why it cannot be written there; empty when it can.
        after_approval: No human allowed the launch yet, so nothing was sent.
    """

    pushed: bool
    refused: str = ""
    after_approval: bool = False


class HomeFacts(Value):
    """What this home knows of the people whom a contract names, and of its own watch.

    Attributes:
        kinds: The kind of each principal that is listed; who is not listed is not here.
        watched: A watch loop runs in this home.
    """

    kinds: dict[str, ActorKind] = {}
    watched: bool = False


class HardwareFacts(Value):
    """The machines that an orchestrator has now; one that scales by itself may have none yet.

    Attributes:
        machines: How many are alive.
        cpus: Of all of them together.
        accelerators: How many of them, or of their chips, by type, such as `TPU-V4`.
    """

    machines: int = 0
    cpus: int = 0
    accelerators: dict[str, int] = {}


class BundleFacts(Value):
    """Whether the orchestrator holds the stated source bundle.

    Attributes:
        there: It does, now.
    """

    there: bool


class Lineage(Value):
    """What this ledger knows of the checkpoint to start from.

    Attributes:
        run: The recorded run below whose checkpoint root it lies; empty for none.
        validated: That run validated it.
        rejected: Why that run rejected it; empty when it did not.
        left: Why that run left the lineage beyond an earlier step, as after a rollback; empty when
            it did not, or has validated the checkpoint since.
        left_at: When it was left: what was written by then belongs to the lineage that was left.
        unread: Recorded runs that cannot be read, so that nobody knows what they rejected.
    """

    run: str = ""
    validated: bool = False
    rejected: str = ""
    left: str = ""
    left_at: AwareDatetime | None = None
    unread: tuple[str, ...] = ()
