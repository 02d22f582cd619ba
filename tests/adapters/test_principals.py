"""Principals: who acts, and how humans are listed without losing what stands in the file."""

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from watchkeeper.adapters.bad_input import BadInput
from watchkeeper.adapters.principals import (
    PRINCIPAL_VARIABLE,
    Principal,
    actor_of,
    add_human,
    read_principals,
)
from watchkeeper.domain.values.people import Actor

LISTED = {
    "alice": Principal(kind="human", name="Alice Ng"),
    "pager": Principal(kind="service"),
    "bot": Principal(kind="agent"),
}

FILE = """\
# Ours.
[principals.alice]
kind = "human"   # On call in odd weeks.
name = "Alice Ng"

[principals.pager]
kind = "service"
"""


def complaint(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_principals(path)
    return str(caught.value).replace(f"{path.parent}/", "").rsplit("\n", 1)[0]


def test_listed_principals_are_read(tmp_path: Path) -> None:
    path = tmp_path / "principals.toml"
    path.write_text(FILE)
    assert read_principals(path) == {name: LISTED[name] for name in ("alice", "pager")}


def test_without_a_file_and_with_an_empty_one_nobody_is_listed(tmp_path: Path) -> None:
    assert read_principals(tmp_path / "principals.toml") == {}
    (tmp_path / "principals.toml").write_text("# Nobody yet.\n")
    assert read_principals(tmp_path / "principals.toml") == {}


BAD = [
    (
        '[principals.alice]\nkind = "humane"\n',
        'p.toml:2  principals.alice.kind: "humane"\n'
        '    expected one of human, agent and service, for example "human"\n'
        '    -> did you mean "human"?',
    ),
    (
        '[principals.alice]\nname = "Alice"\n',
        "p.toml:1  principals.alice.kind\n"
        '    missing; expected one of human, agent and service, for example "human"',
    ),
    (
        '[principals.alice]\nkind = "human"\nnmae = "Alice"\nrole = "DRI"\n',
        'p.toml:3  principals.alice.nmae\n    unknown key; did you mean "name"?\n'
        "p.toml:4  principals.alice.role\n    unknown key\n    -> known here: kind, name",
    ),
    (
        '[principal.alice]\nkind = "human"\n',
        'p.toml:1  principal\n    unknown key; did you mean "principals"?',
    ),
    (
        "principals = 3\n",
        "p.toml:1  principals: 3\n"
        "    expected tables such as [principals.alice], for example [principals.alice]",
    ),
    (
        '\n[principals]\nalice = "human"\n',
        'p.toml:3  principals.alice: "human"\n'
        '    expected a table with kind and name, for example {kind = "human", name = "Alice Ng"}',
    ),
    (
        '[principals."alice ng"]\nkind = "human"\n',
        "p.toml:1  principals.alice ng\n"
        "    expected a name of 1 to 80 characters without spaces, for example alice",
    ),
    (
        "[principals.alice]\nkind = human\n",
        "p.toml:2\n    not TOML: expected a value\n"
        "    -> put text in double quotes, and close every bracket",
    ),
    (
        '[principals.a]\nkind = "human"\n[principals.a]\nkind = "agent"\n',
        "p.toml:3\n    not TOML: expected each key and table once, found one a second time\n"
        "    -> keep one of them",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[text[:30] for text, _ in BAD])
def test_a_mistake_in_the_list_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    assert complaint(tmp_path / "p.toml") == said


def test_a_list_that_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "found a folder" in complaint(tmp_path)
    (tmp_path / "p.toml").symlink_to("gone.toml")
    assert "there is none" in complaint(tmp_path / "p.toml")


@pytest.mark.parametrize(
    ("as_", "environ", "os_user", "principal", "kind"),
    [
        ("alice", {PRINCIPAL_VARIABLE: "bot"}, "pager", "alice", "human"),
        ("pager", {}, "alice", "pager", "service"),
        ("mallory", {PRINCIPAL_VARIABLE: "alice"}, "alice", "mallory", "agent"),
        (None, {PRINCIPAL_VARIABLE: "bot"}, "alice", "bot", "agent"),
        (None, {PRINCIPAL_VARIABLE: "carol"}, "alice", "carol", "agent"),
        (None, {"USER": "bot"}, "alice", "alice", "human"),
        (None, {}, "carol", "carol", "agent"),
        (None, {}, "LAB\\alice", "LAB\\alice", "agent"),
        ("Alice", {}, "alice", "Alice", "agent"),
    ],
)
def test_the_option_comes_first_then_the_variable_then_the_user_and_the_unlisted_are_agents(
    as_: str | None, environ: dict[str, str], os_user: str, principal: str, kind: str
) -> None:
    actor = actor_of(LISTED, as_, environ, os_user)
    assert (actor.principal, actor.kind, actor.authenticated) == (principal, kind, "none")


@pytest.mark.parametrize(
    ("as_", "environ", "os_user", "said"),
    [
        ("", {}, "alice", '--as: ""\n'),
        (None, {PRINCIPAL_VARIABLE: ""}, "alice", f'{PRINCIPAL_VARIABLE}: ""\n'),
        (" alice", {}, "alice", '--as: " alice"\n'),
        ("alice\n", {}, "alice", '--as: "alice\\n"\n'),
        ("a\x1bb", {}, "alice", '--as: "a\\u001bb"\n'),
        ("a\udc80", {}, "alice", '--as: "a\\udc80"\n'),
        ("a" * 81, {}, "alice", "--as: "),
        (None, {}, "", 'OS user: ""\n'),
    ],
)
def test_a_name_that_is_none_never_falls_through_to_a_person(
    as_: str | None, environ: dict[str, str], os_user: str, said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        actor_of(LISTED, as_, environ, os_user)
    assert str(caught.value).startswith(said)
    assert "expected a name of 1 to 80 characters without spaces" in str(caught.value)


def test_an_actor_cannot_say_that_it_was_authenticated() -> None:
    with pytest.raises(ValidationError):
        Actor.model_validate({"principal": "alice", "kind": "human", "authenticated": "token"})


def test_the_first_human_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "principals.toml"
    assert add_human(path, "alice", "Alice Ng")
    assert read_principals(path) == {"alice": LISTED["alice"]}
    assert path.read_text().startswith("# Who may act on runs.")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_human_is_added_below_everything_that_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "principals.toml"
    for text in [FILE, FILE.rstrip("\n"), FILE.replace("\n", "\r\n")]:
        path.write_bytes(text.encode())
        path.chmod(0o600)
        assert add_human(path, "bob")
        content = path.read_bytes().decode()
        assert content.startswith(text)
        assert content[len(text) :].strip() == '[principals.bob]\nkind = "human"'
        assert set(read_principals(path)) == {"alice", "pager", "bob"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(tmp_path) == ["principals.toml"]


def test_a_human_who_is_listed_is_not_listed_again(tmp_path: Path) -> None:
    path = tmp_path / "principals.toml"
    path.write_text(FILE)
    before = path.stat()
    assert not add_human(path, "alice", "Another name")
    assert path.read_text() == FILE
    assert path.stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("text", "principal", "name", "said"),
    [
        (FILE, "pager", "", "expected pager to be a human or not listed, found kind service"),
        (FILE, "bob ng", "", 'principal: "bob ng"\n    expected a name of 1 to 80'),
        (FILE, "", "", "expected a name of 1 to 80 characters"),
        (FILE, "bob", "x" * 201, "its full name has at most 200"),
        (FILE, "bob", "\udc80", "expected a name of 1 to 80 characters"),
        ('principals = {alice = {kind = "human"}}\n', "bob", "", "found principals written inline"),
        ("[principals.alice\n", "bob", "", ":1\n    not TOML: expected ] after"),
    ],
)
def test_what_cannot_be_listed_is_refused_and_changes_nothing(
    tmp_path: Path, text: str, principal: str, name: str, said: str
) -> None:
    path = tmp_path / "principals.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        add_human(path, principal, name)
    assert said in str(caught.value)
    assert path.read_text() == text
    assert os.listdir(tmp_path) == ["principals.toml"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "principals.toml"
    path.write_text(FILE)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    # A full disk can't be had on demand; only the call that meets it first is replaced.
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        add_human(path, "bob")
    assert path.read_text() == FILE
    assert os.listdir(tmp_path) == ["principals.toml"]


def test_a_link_to_a_list_kept_elsewhere_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "p.toml").write_text(FILE)
    (tmp_path / "principals.toml").symlink_to("kept/p.toml")
    assert add_human(tmp_path / "principals.toml", "bob")
    assert (tmp_path / "principals.toml").is_symlink()
    assert "bob" in read_principals(tmp_path / "kept" / "p.toml")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    principals=st.lists(
        st.from_regex(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,80}", fullmatch=True)
    ),
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
)
def test_every_name_that_an_actor_may_have_can_be_listed_and_found_again(
    tmp_path_factory: pytest.TempPathFactory, principals: list[str], name: str
) -> None:
    path = tmp_path_factory.mktemp("home") / "principals.toml"
    for principal in principals:
        add_human(path, principal, name)
    assert read_principals(path) == {p: Principal(kind="human", name=name) for p in principals}
    for principal in principals:
        assert actor_of(read_principals(path), principal, {}, "x").kind == "human"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    text=st.lists(
        st.sampled_from(
            [
                "[principals",
                "]",
                ".",
                "alice",
                '"a b"',
                "\n",
                "kind",
                " = ",
                '"human"',
                "{",
                "}",
                "#",
            ]
        )
    ).map("".join)
)
def test_any_scraps_are_a_list_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "p.toml"
    path.write_text(text)
    try:
        tomllib.loads(text)
        valid = True
    except tomllib.TOMLDecodeError:
        valid = False
    try:
        read_principals(path)
    except BadInput:
        return
    assert valid
