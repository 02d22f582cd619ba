"""GitHub comments, pushes and tags, from a relay that verified the signature."""

import re
from typing import Annotated

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import (
    PART,
    PARTS,
    Flag,
    Moment,
    Outside,
    Text,
    Texts,
    read_as,
)
from watchkeeper.adapters.signals.making import Clue, Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind
from watchkeeper.domain.values.places import repository_of, tag_family

SOURCE = "github"
COMMAND = re.compile(r"^[ \t]{0,3}/watchkeeper\b[^\r\n]{0,280}", re.MULTILINE)
"""A line of a comment that speaks to watchkeeper."""

_OURS = "<!-- watchkeeper:"
_READ_MAX = 64 * 2**10
_PATHS_MAX = 12
_ZERO = re.compile(r"0{40,64}")


class _Person(Outside):
    login: Text = None
    id: Text = None
    type: Text = None


class _Issue(Outside):
    number: Text = None
    html_url: Text = None


class _Comment(Outside):
    id: Text = None
    body: Text = None
    user: Annotated[_Person, PART] = _Person()
    author_association: Text = None
    created_at: Moment = None
    updated_at: Moment = None
    html_url: Text = None


class _Repository(Outside):
    full_name: Text = None
    html_url: Text = None


class _Commit(Outside):
    id: Text = None
    message: Text = None
    timestamp: Moment = None
    added: Texts = ()
    removed: Texts = ()
    modified: Texts = ()


class _Webhook(Outside):
    action: Text = None
    issue: Annotated[_Issue, PART] = _Issue()
    comment: Annotated[_Comment, PART] = _Comment()
    repository: Annotated[_Repository, PART] = _Repository()
    sender: Annotated[_Person, PART] = _Person()
    ref: Text = None
    before: Text = None
    after: Text = None
    created: Flag = False
    deleted: Flag = False
    forced: Flag = False
    commits: Annotated[tuple[_Commit, ...], PARTS] = ()
    head_commit: Annotated[_Commit, PART] = _Commit()


def parse(message: Message, own: frozenset[int]) -> Parsed:
    """Read a webhook.

    Args:
        message: As relayed.
        own: GitHub's ids of the accounts that this service writes with.
    """
    event = message.attributes.get("x-github-event", "")
    if not isinstance(message.body, dict):
        return Poison(f"a webhook of GitHub that is {message.unreadable or 'no JSON object'}")
    hook = read_as(_Webhook, message.body)
    if event == "issue_comment":
        return _of_comment(message, hook, own)
    if event == "push":
        return _of_push(message, hook)
    return Ignored("another event of GitHub")


def _of_comment(message: Message, hook: _Webhook, own: frozenset[int]) -> Parsed:
    comment, action = hook.comment, hook.action or ""
    changed_at = comment.updated_at or comment.created_at
    if not (comment.id and changed_at and hook.issue.html_url):
        return Poison("a comment without id, time or issue")
    if _is_ours(hook, own):
        return Ignored("our own comment")
    old = _before(message.body)
    commands = COMMAND.findall((comment.body or "")[:_READ_MAX])
    if action == "created":
        kind, says = SignalKind.COMMENT, "commented"
    elif action not in ("edited", "deleted"):
        return Ignored("another action on a comment")
    elif commands or COMMAND.search(old[:_READ_MAX]):
        kind, says = SignalKind.COMMENT_CHANGED, f"{action} a comment that holds a command"
    else:
        return Ignored("a change of a comment without a command")
    said = Said(
        source=SOURCE,
        # Deleting leaves the time of the last edit.
        key=("comment", comment.id, changed_at, *(("deleted",) if action == "deleted" else ())),
        kind=kind,
        subject=f"comment {comment.id}",
        summary=f"{hook.sender.login} {says}: {commands[0] if commands else comment.body or ''}",
        at=None if action == "deleted" else changed_at,
        clues=[("issue", hook.issue.html_url.rstrip("/").lower())],
        facts={
            "action": action,
            "comment": comment.id,
            "author": comment.user.login,
            "author_id": comment.user.id,
            "sender": hook.sender.login,
            "sender_id": hook.sender.id,
            "association": comment.author_association,
            "command": commands[0].strip() if len(commands) == 1 else None,
            "commands": len(commands),
            "before": old,
            "body_sha256": message.comment,
            "url": comment.html_url,
            "delivery": message.attributes.get("x-github-delivery"),
        },
    )
    return (signal_of(message, said),)


def _is_ours(hook: _Webhook, own: frozenset[int]) -> bool:
    """Return whether we wrote a comment and no other user edited it.

    Without our ids, we are recognised as a bot that signs its comments. The mark alone proves
    nothing: any user can write it, also into an existing approval.
    """
    sender, author = hook.sender, hook.comment.user
    if sender.id is None or sender.id != author.id:
        return False
    if sender.id in {str(one) for one in own}:
        return True
    return sender.type == "Bot" and _OURS in (hook.comment.body or "")


def _before(body: JsonValue) -> str:
    """Return a comment's text before it was edited; empty when it was not."""
    found = body
    for name in ("changes", "body", "from"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def _of_push(message: Message, hook: _Webhook) -> Parsed:
    ref, delivery = hook.ref or "", message.attributes.get("x-github-delivery")
    if not ref.startswith(("refs/heads/", "refs/tags/")) or not delivery:
        return Poison("a push without ref or x-github-delivery")
    repository = repository_of(hook.repository.html_url or hook.repository.full_name or "")
    kind, says = _pushed(hook, is_tag=ref.startswith("refs/tags/"))
    newest = hook.commits[-1] if hook.commits else hook.head_commit
    said = Said(
        source=SOURCE,
        key=("push", delivery),
        kind=kind,
        subject=f"{repository} {ref}",
        summary=f"{hook.sender.login} {says} {ref}, now at {(hook.after or '')[:12]}",
        # A commit's own time says when it was made, and a rewritten one may be old.
        at=message.published_at,
        clues=_push_clues(repository, ref, hook.commits),
        facts={
            "before": hook.before,
            "after": hook.after,
            "head": newest.id,
            "message": newest.message,
            "sender": hook.sender.login,
            "sender_id": hook.sender.id,
            "commits": len(hook.commits),
        },
    )
    return (signal_of(message, said),)


def _pushed(hook: _Webhook, *, is_tag: bool) -> tuple[SignalKind, str]:
    if hook.deleted or _ZERO.fullmatch(hook.after or ""):
        return SignalKind.HISTORY_REWRITTEN, "deleted"
    created = hook.created or bool(_ZERO.fullmatch(hook.before or ""))
    if hook.forced or (is_tag and not created):
        return SignalKind.HISTORY_REWRITTEN, "rewrote"
    return (SignalKind.TAG_PUSHED if is_tag else SignalKind.BRANCH_PUSHED), "pushed"


def _push_clues(repository: str, ref: str, commits: tuple[_Commit, ...]) -> list[Clue]:
    if not repository:
        return []
    tag = ref.removeprefix("refs/tags/")
    if tag != ref:
        return [("tag", f"{repository}:{tag}"), ("tag", f"{repository}:{tag_family(tag)}")]
    touched = [
        path
        for one in commits
        for path in (*one.modified[:200], *one.added[:200], *one.removed[:200])
    ]
    # A branch may hold many logbooks; then the file says whose it is.
    paths = sorted(dict.fromkeys(touched), key=lambda path: "logbook" not in path)[:_PATHS_MAX]
    return [("ref", f"{repository}:{ref}"), *(("path", f"{repository}:{one}") for one in paths)]
