"""Commands about the cause of an end, and about a fix pushed for it."""

from pydantic import PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.basic import Reading
from watchkeeper.domain.values.contract.contract import GitSha
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts


class Revise(Command):
    """Change the recorded cause of a failure.

    Attributes:
        failure: The version of the event that classified the end.
        cause: The new cause.
        reason: The evidence, in the person's words.
    """

    failure: PositiveInt
    cause: str
    reason: str


class ReportFix(Command):
    """A small fix was pushed for the code bug that ended the newest instance (R5).

    Attributes:
        git_sha: The commit of the fix.
        reason: What the fix changes.
        repository: The facts of the code's remote about the commit; `None` without an answer.
        changed: Files that differ between the launched commit and this one; `None` without an
            answer.
        reading: The state of the remote's answer.
        bundle: The source bundle built from the commit; empty if the contract names no bundle.
        container: The image built from the commit; empty if the contract names no image.
    """

    git_sha: GitSha
    reason: str
    repository: RepositoryFacts | None
    changed: tuple[str, ...] | None
    reading: Reading
    bundle: str = ""
    container: str = ""


class SuggestCause(Command):
    """Record a second reader's suggestions about the cause of an end.

    Attributes:
        failure: The version of the event that classified the end.
        source: The second reader's name.
        hypotheses: The suggested causes; empty without an answer.
        failed: Why there is no answer; empty after an answer.
    """

    failure: PositiveInt
    source: str
    hypotheses: tuple[str, ...] = ()
    failed: str = ""
