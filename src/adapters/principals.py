"""The list of principals, `principals.toml`, and the principal who acts."""

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints, ValidationError

from watchkeeper.adapters.bad_input import BadInput, Problem, shown
from watchkeeper.adapters.documents import read_text, refuse
from watchkeeper.adapters.explain import Field, validate
from watchkeeper.adapters.toml_document import parse_toml
from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.people import Actor, ActorKind, PrincipalName

PRINCIPAL_VARIABLE = "WATCHKEEPER_PRINCIPAL"
"""Environment variable that names who acts, where no option does."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

_GUIDE = {
    "principals": Field("tables such as [principals.alice]", "[principals.alice]"),
    "principals.*": Field("a table with kind and name", '{kind = "human", name = "Alice Ng"}'),
    "principals.*.[key]": Field("a name of 1 to 80 characters without spaces", "alice"),
    "principals.*.kind": Field("one of human, agent and service", '"human"'),
    "principals.*.name": Field("text of at most 200 characters", '"Alice Ng"'),
}

_HEADER = """\
# Who may act on runs. kind is human, agent or service; an unlisted principal is an agent.
# Only a human may approve, waive, consent or acknowledge. Names are not authenticated.
"""


class Principal(Value):
    """One principal as it is listed.

    Attributes:
        kind: Human, agent or service.
        name: What people call it; empty when that is its principal name.
    """

    kind: ActorKind
    name: Annotated[str, StringConstraints(max_length=200)] = ""


class _Listed(Value):
    """The whole file."""

    principals: dict[PrincipalName, Principal] = {}


def read_principals(path: Path) -> Mapping[str, Principal]:
    """Read the list of principals; without the file the list is empty.

    Raises:
        BadInput: The file can't be read, or has mistakes: all of them, in the order of the lines.
    """
    if not os.path.lexists(path):
        return {}
    return _listed(read_text(path, "a list of principals"), str(path))


def actor_of(
    principals: Mapping[str, Principal],
    as_: str | None,
    environ: Mapping[str, str],
    os_user: str,
) -> Actor:
    """Return who acts: `--as`, else the variable, else the OS user; unlisted names are agents.

    A name that is given but empty is refused. Otherwise a script with an unset variable would
    act as the person who started it.

    Args:
        principals: The list.
        as_: The value of the option; None if it is not given.
        environ: The environment variables.
        os_user: The name of the user that this process belongs to.

    Raises:
        BadInput: The name that counts is no principal's name.
    """
    if as_ is not None:
        source, name = "--as", as_
    elif PRINCIPAL_VARIABLE in environ:
        source, name = PRINCIPAL_VARIABLE, environ[PRINCIPAL_VARIABLE]
    else:
        source, name = "OS user", os_user
    listed = principals.get(name)
    try:
        return Actor(principal=name, kind="agent" if listed is None else listed.kind)
    except ValidationError as error:
        step = (
            "name the acting principal with --as"
            if source == "OS user"
            else ("name the acting principal, or leave it out")
        )
        raise _bad_name(source, name, step) from error


def add_human(path: Path, principal: str, name: str = "") -> bool:
    """Add a human to the list and keep everything else in the file, including comments.

    The file is replaced as a whole, so that a reader sees the old one or the new one. Of two
    writers at the same moment the later one wins.

    Args:
        path: The file; it is created if missing, its folder is not.
        principal: The principal's name.
        name: What people call it.

    Returns:
        Whether the file was changed; false if the human was already listed.

    Raises:
        BadInput: The file has mistakes, lists the principal as another kind, or can't be extended;
            or a name is invalid.
        OSError: The file can't be written.
    """
    file = str(path)
    try:
        _Listed(principals={principal: Principal(kind="human", name=name)})
    except ValidationError as error:
        raise _bad_name("principal", principal, "its full name has at most 200") from error
    text = read_text(path, "a list of principals") if os.path.lexists(path) else _HEADER
    listed = _listed(text, file).get(principal)
    if listed is not None and listed.kind == "human":
        return False
    if listed is not None:
        expected = f"expected {principal} to be a human or not listed, found kind {listed.kind}"
        raise refuse(file, None, expected, "change the kind by hand if this is intended")
    key = principal if _BARE_KEY.fullmatch(principal) else _quoted(principal)
    lines = [
        f"[principals.{key}]",
        'kind = "human"',
        *([f"name = {_quoted(name)}"] if name else []),
    ]
    gap = "" if text.endswith("\n") or not text else "\n"
    extended = f"{text}{gap}\n" + "\n".join(lines) + "\n"
    try:
        extended_listed = _listed(extended, file)
    except BadInput as error:
        # The file was valid before, so that it is the new table that does not fit.
        expected = "expected tables such as [principals.alice], found principals written inline"
        raise refuse(file, None, expected, f"add {principal} there by hand") from error
    assert extended_listed[principal].kind == "human"
    _replace(path, extended)
    return True


def _listed(text: str, file: str) -> Mapping[str, Principal]:
    return validate(_Listed, parse_toml(text, file), _GUIDE).principals


def _bad_name(source: str, name: str, next_step: str) -> BadInput:
    expected = "expected a name of 1 to 80 characters without spaces, for example alice"
    return BadInput((Problem(source, None, "", shown(name), expected, next_step),))


def _replace(path: Path, text: str) -> None:
    """Replace a file as a whole; after a crash it is the old one or the new one."""
    # A link to a file that is kept elsewhere stays a link.
    target = path.resolve()
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError:
        os.unlink(temporary)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # Without this the new name itself could be lost with the power.
        os.fsync(folder)
    finally:
        os.close(folder)


def _quoted(text: str) -> str:
    """Write text as a TOML string on one line."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
