"""Writes docs/schemas/events: a JSON Schema for each published event.

It also writes docs/schemas/observation.json and docs/reference/observation.md: what a check reads.

    uv run python scripts/generate_schemas.py [--check] [--replace TOPIC]

A schema that is there already was promised to subscribers: it is written anew only where nothing
that was promised breaks, such as with one more field that need not be there. Whatever else needs a
new version of the topic. `--replace` is for a topic that no release has had yet. `--check` writes
nothing, and fails when a schema is missing, out of date or broken.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from watchkeeper.adapters.observation_schema import observation_page, observation_schema
from watchkeeper.domain.run.registry import UPCASTS, type_of
from watchkeeper.projections.published.schemas import breaks, event_schema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas" / "events"


def problems(folder: Path, replaced: Sequence[str] = ()) -> tuple[dict[Path, str], list[str]]:
    """Compare what is stored with the code.

    Returns:
        The texts of files to write, and what breaks what was promised.
    """
    to_write: dict[Path, str] = {}
    broken: list[str] = []
    for topic in sorted(type_of):
        path = folder / f"{topic}.json"
        wanted = event_schema(topic)
        text = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        stored = path.read_text(encoding="utf-8") if path.exists() else None
        if stored == text:
            continue
        if stored is not None and topic not in replaced:
            found = breaks(json.loads(stored), wanted)
            if found:
                broken += [f"{topic}: {one}" for one in found]
                continue
        to_write[path] = text
    for path in sorted(folder.glob("*.json")):
        topic = path.name.removesuffix(".json")
        if topic not in type_of and topic not in UPCASTS:
            broken.append(f"{topic}: it is written no more, and has no upcast")
    return to_write, broken


def observation_files(docs: Path) -> dict[Path, str]:
    """Return what is to be written about observations, by file."""
    schema = json.dumps(observation_schema(), indent=2, ensure_ascii=False) + "\n"
    wanted = {docs / "schemas" / "observation.json": schema}
    wanted[docs / "reference" / "observation.md"] = observation_page()
    return {
        path: text
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main() -> int:
    """Write the schemas, or say what is wrong with them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when one is out of date")
    parser.add_argument("--replace", action="append", default=[], metavar="TOPIC")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the schemas are")
    options = parser.parse_args()
    to_write, broken = problems(options.folder, options.replace)
    if options.folder == FOLDER:
        to_write |= observation_files(FOLDER.parent.parent)
    for one in broken:
        print(f"{one}: subscribers rely on it; write a new version of the topic")
    if options.check:
        for path in to_write:
            print(f"{path} is out of date: run `uv run python scripts/generate_schemas.py`")
        return 1 if broken or to_write else 0
    for path, text in to_write.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
