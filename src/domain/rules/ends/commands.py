"""Commands about the cause of an end, and about a fix pushed for it."""

from pydantic import PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.basic import Reading
from watchkeeper.domain.values.contract.contract import GitSha
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts


class Revise(Command):
    """Take an end for something else than it was classified as.

    Attributes:
        failure: The version of the event that classified it.
        cause: What it was.
        reason: How that is known.
    """

    failure: PositiveInt
    cause: str
    reason: str


class ReportFix(Command):
    """A small fix was pushed for the code bug that ended the newest instance (R5).

    Attributes:
        git_sha: Its commit.
        reason: What it mends.
        repository: What the code's remote says of the commit; none without an answer.
        changed: Files that differ between the launched commit and this one; none without an answer.
        reading: How the remote answered.
        bundle: Source bundle that was built from it; empty where the contract names none.
        container: Image that was built from it; empty where the contract names none.
    """

    git_sha: GitSha
    reason: str
    repository: RepositoryFacts | None
    changed: tuple[str, ...] | None
    reading: Reading
    bundle: str = ""
    container: str = ""


class SuggestCause(Command):
    """A second reader was asked what an end was, and this is what came of it.

    Attributes:
        failure: The version of the event that classified it.
        source: Who was asked.
        hypotheses: Its guesses in words; empty without an answer.
        failed: Why there is no answer; empty where there is one.
    """

    failure: PositiveInt
    source: str
    hypotheses: tuple[str, ...] = ()
    failed: str = ""
