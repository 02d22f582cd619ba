"""The protos, what is generated from them, and the page about them."""

import shutil
from pathlib import Path

import pytest
from protobuf import (
    DescFieldValueEnum,
    DescFieldValueList,
    DescFieldValueMessage,
    DescMessage,
)
from scripts import generate_protos

from watchkeeper.adapters.rpc.gen.watchkeeper.v1 import watchkeeper_pb
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_connect import WatchkeeperService

PAGE = (generate_protos.ROOT / "docs" / "reference" / "rpc.md").read_text(encoding="utf-8")
METHODS = {method.name: method for method in WatchkeeperService.desc().methods}


def section(name: str) -> str:
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def missing(message: DescMessage, text: str) -> list[str]:
    """The fields of a message, and of those in it, that a text does not name."""
    found: list[str] = []
    for field in message.fields:
        if f"`{field.name}`" not in text and f".{field.name}`" not in text:
            found.append(f"{message.name}.{field.name}")
        match field.value:
            case (
                DescFieldValueMessage(message=inner)
                | DescFieldValueList(element=DescMessage() as inner)
            ):
                found += missing(inner, text)
            case DescFieldValueEnum(enum=enum):
                found += [value.name for value in enum.values if f"`{value.name}`" not in text]
            case _:
                pass
    return found


@pytest.mark.parametrize("name", METHODS)
def test_every_rpc_is_on_the_page_with_every_field(name: str) -> None:
    told = section(name)
    assert told, f"docs/reference/rpc.md has no section {name}"
    assert missing(METHODS[name].input, told) == []
    assert missing(METHODS[name].output, told) == []


def test_an_rpc_that_the_page_does_not_have_is_found() -> None:
    assert missing(METHODS["Acknowledge"].input, section("ListEvents"))
    assert section("Abandon") == ""


def test_what_is_generated_is_what_the_protos_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["generate_protos.py", "--check"])
    assert generate_protos.main() == 0


def test_a_tree_that_differs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(generate_protos.GENERATED, tmp_path / "gen")
    changed = tmp_path / "gen" / "watchkeeper" / "v1" / Path(watchkeeper_pb.__file__).name
    changed.write_text(changed.read_text() + "# by hand\n")
    monkeypatch.setattr(generate_protos, "GENERATED", tmp_path / "gen")
    monkeypatch.setattr("sys.argv", ["generate_protos.py", "--check"])
    assert generate_protos.main() == 1
    assert "watchkeeper_pb.py is out of date" in capsys.readouterr().out
