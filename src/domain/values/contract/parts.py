"""Parts of a contract: policies, expected cost and signals."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from watchkeeper.domain.values.basic import Value

IGNORED = (
    "*.md",
    "*.log",
    "logs/*",
    "*/logs/*",
    "tests/*",
    "*/tests/*",
    "test_*.py",
    "*/test_*.py",
    "*.pyc",
)
"""Changed files that cannot affect training: log files, Markdown and tests, as the written
procedure for hero runs names them, and what Python compiles by itself. Experiments that are not
launched are named by the contract."""

PolicyTrackerId = Literal["per_run", "per_attempt"]
PolicyOom = Literal["ask", "one_bounded_fix"]
PolicyDistributed = Literal["ask", "retry_once"]
PolicyTemporaries = Literal["ten_or_more", "up_to_five", "any"]
PolicyStopped = Literal["failure", "needs_waiver"]
PolicyStartup = Literal["alert", "end_with_consent"]
PolicyApprovals = Literal["standing", "each"]


class ModelPart(Value):
    """The expected cost of the run: L17 computes 6 x parameters x tokens.

    Attributes:
        parameters: Active parameters for each token.
        tokens: Total tokens; the default is steps x batch x sequence.
        batch_size: Sequences in a step.
        sequence_length: Tokens in a sequence.
    """

    parameters: PositiveInt | None = None
    tokens: PositiveInt | None = None
    batch_size: PositiveInt | None = None
    sequence_length: PositiveInt | None = None


class PolicyPart(Value):
    """Policy switches. A missing switch has the lane's default.

    Attributes:
        tracker_id: `per_run`: one tracker id for all instances. `per_attempt`: each instance has
            its own, `<tracker.id>-i1` and so on, under the same display name; the resume policy is
            then `never`. The job gets it in `WATCHKEEPER_TRACKER_ID`, and for W&B also in
            `WANDB_RUN_ID`. Used by L4, H2, the seal and R19.
        oom: The response to proven lack of memory. `ask`: the DRI is asked at once (R6).
            `one_bounded_fix`: one relaunch with nothing changed (R1), then the DRI is asked (R12).
        distributed: The response to a collective timeout or lost peer of unknown cause. `ask`: the
            DRI is asked at once (R6). `retry_once`: one relaunch with nothing changed (R1); a
            repeated failure is asked about (R2).
        approvals: What an approval covers. `standing`: the relaunches that R1 decides as well.
            `each`: a human approves every relaunch, in answer to a question. Read by R19 and L11.
        temporary_retention: How many temporary checkpoints are kept: `ten_or_more` for deep
            rollback, `up_to_five` to save storage, or `any`. Used by L5.
        stopped: The meaning of STOPPED without a recorded request. It is never a success.
            `failure`: it is recovered like any failure, as the written monitoring loop says, and
            the run cannot be sealed on it. `needs_waiver`: a human is asked (R14), and the run can
            be sealed with a waiver that names it. Read by R14 and by the seal (H11).
        startup_forbidden: The response to a wrong start, such as from scratch instead of a resume.
            `alert`: the DRI is notified. `end_with_consent`: the DRI is also asked for the
            instance's end. Read by H17.
        lines_expected: Texts that a start must show in its log, before training moves or within 45
            min. Read by H17. Texts about a resume count only if the instance resumes.
        lines_forbidden: Texts that a start must not show. Read by H17; as above.
        material_keys: Further names or globs of configuration keys whose change is material (L14).
        immaterial_keys: Names or globs of keys whose change cannot alter training (L14).
    """

    tracker_id: PolicyTrackerId | None = None
    oom: PolicyOom | None = None
    distributed: PolicyDistributed | None = None
    approvals: PolicyApprovals | None = None
    temporary_retention: PolicyTemporaries | None = None
    stopped: PolicyStopped | None = None
    startup_forbidden: PolicyStartup | None = None
    lines_expected: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    lines_forbidden: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    material_keys: tuple[str, ...] = ()
    immaterial_keys: tuple[str, ...] = ()


class SignalsPart(Value):
    """Names by which signals of shared systems are bound to this run.

    Attributes:
        roots: Further roots whose objects belong to the run, such as a root of temporary
            checkpoints.
        nodes: Names of TPU nodes or hosts that only this run uses.
        pools: Queued resources that serve the run, by id.
        budgets: Billing budgets of the run, by id or display name.
    """

    roots: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
