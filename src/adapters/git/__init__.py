"""Access to a branch and the tags of a git remote through a private mirror."""

from watchkeeper.adapters.git.remote import GitRemoteMirror, open_git_remote

__all__ = ["GitRemoteMirror", "open_git_remote"]
