"""Launch rules on the commit and the code that runs (L2, L8)."""

from watchkeeper.domain.rules.launch.gate.base import (
    DIRTY_TREE,
    TRY_AGAIN,
    UNKNOWN_SOURCE,
    Gate,
    LaunchRule,
    blocked,
    consent_to,
    has_answered,
    inferred,
    missing,
    passed,
    source_reading_of,
    unanswered,
    unknown_source,
    warned,
)
from watchkeeper.domain.rules.shared.rule import HERO
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.options import digest_of, image_digests
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict, short
from watchkeeper.domain.values.observation.gate_facts import (
    BUNDLE,
    GIT,
    WORKTREE,
    RepositoryFacts,
    WorktreeFacts,
)
from watchkeeper.domain.values.observation.observation import gate_reading_of
from watchkeeper.domain.values.places import lies_below

_SHOWN_MAX = 5
"""How many changed files a finding names."""


def checkout_of(contract: Contract) -> str:
    """Return the checkout that is compared with the commit; else empty."""
    if contract.code.worktree:
        return contract.code.worktree
    return contract.working_dir if contract.orchestrator.kind == "local" else ""


def l2(gate: Gate) -> GateFinding:
    """L2: the commit is on the remote's branch, and the checkout is at it and clean."""
    folder = gate.contract.working_dir if gate.contract.orchestrator.kind == "ray" else ""
    if folder and not folder.startswith("/"):
        says = f"working_dir {folder} is no absolute path on the cluster's machines"
        fix = "state the folder of the code there; a URL or package cannot be entered"
        return blocked("L2", "working_dir", says, fix)
    tree = _worktree(gate)
    if tree is not None and tree.verdict is Verdict.BLOCK:
        return tree
    pushed = _pushed(gate)
    found = pushed if pushed.verdict is not Verdict.PASS or tree is None else tree
    if not folder or found.verdict is Verdict.BLOCK:
        return found
    unseen = f"{folder} on the cluster's machines was not looked at"
    return found.model_copy(update={"says": f"{found.says}; {unseen}"})


def _pushed(gate: Gate) -> GateFinding:
    code = gate.contract.code
    sha = code.git_sha[:8]
    found = gate.facts.repository
    if not has_answered(gate, GIT) or found is None:
        silent = unknown_source(gate, "L2", "code lineage", GIT)
        known = gate.previous is not None and gate.previous.plan.git_sha == gate.plan.git_sha
        if known and gate.previous is not None:
            reason = gate_reading_of(gate.facts, GIT).reason
            before = gate.previous.plan.instance
            says = f"{sha} was on its branch at {before}; not asked again: {reason}"
            fix = "nothing, where the remote is only down: the commit is the same"
            return warned("L2", "code lineage", says, fix)
        if silent is not None:
            return silent
        return unanswered("L2", "code lineage", "no answer")
    if not found.commit_found:
        says = f"commit {sha} is not on any remote branch"
        return blocked("L2", "code lineage", says, f"git push origin {code.branch}")
    if not found.on_branch:
        return _wrong_branch(gate, found)
    if code.dirty and checkout_of(gate.contract) == "":
        says = "the tree is dirty, and no checkout is named to read the patch's identity from"
        fix = "state code.worktree; or commit, push, and launch that commit"
        return missing(gate, "L2", "code lineage", says, fix)
    return passed("L2", "code lineage", f"{sha} is on {code.branch}")


def _wrong_branch(gate: Gate, found: RepositoryFacts) -> GateFinding:
    code = gate.contract.code
    elsewhere = ", ".join(found.branches[:_SHOWN_MAX]) or "no branch, only on a tag"
    at = f"at {found.branch_head[:8]}" if found.branch_head else "not there"
    says = f"commit {code.git_sha[:8]} is on {elsewhere}; {code.branch} is {at}"
    return blocked("L2", "code lineage", says, "state the branch that holds it, or push it there")


def _worktree(gate: Gate) -> GateFinding | None:
    """Return the finding about the checkout; `None` without a checkout."""
    path, code = checkout_of(gate.contract), gate.contract.code
    if not path:
        return _patch_lost(gate)
    reading = gate_reading_of(gate.facts, WORKTREE)
    if reading.state is not SourceState.FRESH:
        return unknown_source(gate, "L2", "checkout", WORKTREE)
    tree = gate.facts.worktree
    if tree is None:
        if not code.worktree:
            # The job's folder is not a checkout, so only the commit counts.
            return _patch_lost(gate)
        says = f"{path} is no checkout of git"
        return blocked("L2", "checkout", says, "state code.worktree as the folder of the checkout")
    if not tree.head:
        says = f"{path} does not exist on this machine"
        key = "code.worktree" if code.worktree else "working_dir"
        return blocked("L2", "checkout", says, f"create it, or correct {key} in the contract")
    if tree.head != code.git_sha:
        says = f"{tree.path} is at {tree.head[:8]}, not at {code.git_sha[:8]}"
        fix = f"git -C {tree.path} checkout {code.git_sha[:12]}, or launch what is there"
        return blocked("L2", "checkout", says, fix)
    followed = tree.upstream.partition("/")[2]
    if tree.branch and code.branch not in (tree.branch, followed):
        says = f"{tree.path} is on branch {tree.branch}, the contract says {code.branch}"
        return blocked("L2", "checkout", says, f"git -C {tree.path} checkout {code.branch}")
    if tree.changed_total:
        return _dirty(gate, tree)
    if lost := _patch_lost(gate):
        return lost
    if tree.behind:
        says = f"{tree.path} is {tree.behind} behind {tree.upstream}"
        return warned("L2", "checkout", says, "make sure that nothing newer should be launched")
    rest = (
        f"; {tree.ignored_total} changed that cannot affect training" if tree.ignored_total else ""
    )
    says = f"{code.git_sha[:8]} is on {code.branch}, and {tree.path} is clean at it{rest}"
    return passed("L2", "code lineage", says)


def _patch_lost(gate: Gate) -> GateFinding | None:
    """Block a relaunch that lacks the patch of the previous instance: it runs other code."""
    prior = gate.previous
    if prior is None or not prior.patch:
        return None
    name = short(prior.patch)
    says = f"{prior.plan.instance} ran with the uncommitted patch {name}, and it is gone"
    kept = f"evidence/{prior.patch_kept[:2]}/{prior.patch_kept}.patch of the home"
    where = f" (git apply {kept})" if prior.patch_kept else ""
    fix = f"apply the patch again{where}; or go on with other code as a new run, by supersede"
    if prior.plan.git_sha != gate.plan.git_sha:
        fix = "go on at the new commit as a new run, by supersede"
    return blocked("L2", "dirty tree", says, fix)


def _dirty(gate: Gate, tree: WorktreeFacts) -> GateFinding:
    names = ", ".join(tree.changed[:_SHOWN_MAX])
    more = tree.changed_total - min(len(tree.changed), _SHOWN_MAX)
    what = f"{names}{f' and {more} more' if more > 0 else ''}"
    consent = consent_to(gate, DIRTY_TREE, tree.patch)
    if consent is not None:
        says = f"dirty by consent {consent.name}: {what}, patch {short(tree.patch)}"
        finding = warned(
            "L2", "dirty tree", says, "the patch's identity is recorded with the launch"
        )
        return finding.model_copy(update={"consent": consent.name})
    if gate.previous is not None and gate.previous.patch == tree.patch:
        says = f"dirty as at {gate.previous.plan.instance}: the same patch {short(tree.patch)}"
        return warned("L2", "dirty tree", says, "the patch's identity is recorded with the launch")
    says = f"not committed: {what} (patch {short(tree.patch)})"
    fix = (
        "commit and push, and launch that commit; or "
        f"watchkeeper permit propose {gate.plan.run} {DIRTY_TREE} {tree.patch} --reason WHY"
    )
    return blocked("L2", "dirty tree", says, fix)


def l8(gate: Gate) -> GateFinding:
    """L8: bundle or container is identified, and was built from the launch commit."""
    code = gate.contract.code
    if code.built_from and code.built_from != code.git_sha:
        says = f"built from {code.built_from[:8]}, and {code.git_sha[:8]} is launched"
        return blocked("L8", "bundle", says, "build it again from the launch commit")
    named = _named_digests(gate)
    stated = digest_of(code.container)
    if code.container and not stated:
        says = f"{code.container} has no digest, so what it is can change"
        fix = "state code.container with its digest: name@sha256:..."
        return missing(gate, "L8", "container", says, fix)
    others = {digest: place for digest, place in named.items() if digest != stated}
    if stated and others:
        digest, place = next(iter(others.items()))
        says = f"{place} names sha256:{digest[:12]}, the contract sha256:{stated[:12]}"
        return blocked("L8", "container", says, "make them agree; digests are compared, not tags")
    if stated:
        built = f", built from {code.built_from[:8]}" if code.built_from else ""
        return passed("L8", "container", f"sha256:{stated[:12]}{built}")
    if code.bundle:
        return _bundle(gate, code.bundle)
    if others:
        digest, place = next(iter(others.items()))
        fix = "state it as code.container"
        return inferred(gate, "L8", "container", f"sha256:{digest[:12]} from {place}", fix)
    tree = gate.facts.worktree
    if tree is not None and tree.head == code.git_sha and tree.path:
        if gate.contract.orchestrator.kind == "local":
            return passed("L8", "bundle", f"the job starts in the checkout {tree.path}")
        if gate.contract.working_dir and lies_below(gate.contract.working_dir, tree.path):
            fix = "state code.bundle or code.container to be sure"
            says = f"the checkout {tree.path}, if the cluster's machines see the same folder"
            return inferred(gate, "L8", "bundle", says, fix)
    fix = "state code.bundle or code.container, and code.built_from"
    says = "neither bundle nor container is identified, and either can differ from the commit"
    return missing(gate, "L8", "bundle", says, fix)


def _bundle(gate: Gate, stated: str) -> GateFinding:
    """Return the finding about a stated bundle, by the orchestrator's report."""
    reading = source_reading_of(gate, BUNDLE)
    if reading is None:
        return passed("L8", "bundle", stated)
    if gate.facts.bundle is None:
        says = f"{UNKNOWN_SOURCE}: {reading.reason}"
        return missing(gate, "L8", "bundle", says, TRY_AGAIN)
    if not gate.facts.bundle.there:
        kind = gate.contract.orchestrator.kind
        says = f"the {kind} orchestrator does not hold {stated}"
        return warned("L8", "bundle", says, "make sure that it is what the job runs")
    return passed("L8", "bundle", f"{stated}, which the orchestrator holds")


def _named_digests(gate: Gate) -> dict[str, str]:
    """Return the digests of the images that command and environment name, with their places."""
    texts = {f"command[{n}]": word for n, word in enumerate(gate.plan.command)}
    texts |= {f"env.{name}": value for name, value in gate.plan.env.items()}
    found: dict[str, str] = {}
    for place, text in texts.items():
        for digest in image_digests(text):
            found.setdefault(digest, place)
    return found


L2 = LaunchRule(
    id="L2",
    title="code lineage",
    when=(
        "The launch commit is on the contract's branch of its remote. A local checkout that is "
        "used for the launch is at that commit and clean. Files that cannot affect training do not "
        "count. On Ray, `working_dir` is a path on the cluster's machines and is not checked; the "
        "finding says so."
    ),
    then=(
        "Blocks: a commit that is not pushed, another branch, another checkout, a dirty tree "
        "without a consent to its patch, or no answer. A checkout behind its upstream warns."
    ),
    where=__name__,
    source=f"{HERO}, Launch and What Can Go Wrong: Wrong code lineage",
    test=l2,
    pauses=True,
)

L8 = LaunchRule(
    id="L8",
    title="bundle or container",
    when=(
        "A bundle or container that can differ from the commit is named and was built from the "
        "commit. All images in command and environment have the stated digest. A package on Ray "
        "exists on the cluster."
    ),
    then=(
        "A mismatch blocks; digests are compared, not tags. A package that the cluster lacks "
        "warns. A missing identity blocks a hero run."
    ),
    where=__name__,
    source=f"{HERO}, Launch: runtime package, source bundle, or container identity",
    test=l8,
    pauses=True,
)
