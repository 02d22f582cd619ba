"""Plays two demos and exports the output of commands as pictures for the pages.

    uv run python scripts/generate_pictures.py [--keep FOLDER]

It takes about three minutes. The output is real. Only the folder of the demo and the shell's
environment are replaced by short names, so two runs differ in times and digests alone.
"""

import argparse
import io
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 108
WIDE = 144
"""Columns of a terminal: of most pictures, and of a table with long lines."""

LIMIT_S = 300.0
BAD_INPUT = 4
"""The exit code of a command that does not exist in this form."""

RUN = "demo-lm"

# Rich's own frame, with the reader's monospace font in place of one that is fetched.
FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--keep", type=Path, help="a new folder for the demos, which stays")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="wk-pictures-"))
    folder.mkdir(parents=True, exist_ok=True)
    pictures = take_pictures(folder)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
        print(f"{PICTURES / name}.svg")
    if options.keep is None:
        shutil.rmtree(folder)


def take_pictures(folder: Path) -> dict[str, str]:
    """Play the demos in a folder, and return each picture by its name."""
    sealed, night = folder / "crash", folder / "first-night"
    demo = ("demo", "--orchestrator", "local", "--tracker", "jsonl", "--home")
    story = typed(sealed, *demo, str(sealed))
    taken = {"demo": picture("demo", "watchkeeper demo --orchestrator local", in_short(story))}
    book = typed(sealed, "logbook", RUN)
    taken["logbook"] = picture("logbook", ".agents/logbooks/demo-lm.md", Markdown(excerpt(book)))

    story = typed(night, *demo, str(night), "--fault", "crash-loop")
    taken["demo-session"] = picture("demo-session", "watchkeeper demo", in_short(story))
    for name, words in {
        "status": ("status",),
        "status-run": ("status", RUN),
        "why": ("why", RUN),
        "checkpoints": ("checkpoints", RUN, "--no-sizes"),
        "doctor": ("doctor",),
    }.items():
        taken[name] = screen(name, night, *words)
    taken["events"] = screen("events", night, "events", RUN, "--last", "12", width=WIDE)
    taken["gate"] = gate(folder, night)
    taken["handover"] = handover(night)
    return taken


def gate(folder: Path, night: Path) -> str:
    """Return the picture of the page of a first launch, in a new home."""
    home = folder / "gate"
    text = (night / "demo" / "demo-lm.yaml").read_text(encoding="utf-8")
    text = text.replace(str(night / "demo" / "output"), str(folder / "my-run"))
    contract = folder / "my-run.yaml"
    contract.write_text(text.replace(RUN, "my-run"), encoding="utf-8")
    typed(home, "init", "--human", "demo", "--home", str(home))
    return screen("gate", home, "launch", str(contract))


def handover(home: Path) -> str:
    """Answer the question of a run, and return the picture of its handover while it trains."""
    principals = home / "principals.toml"
    ana = '\n[principals.ana]\nkind = "human"\n'
    principals.write_text(principals.read_text(encoding="utf-8") + ana, encoding="utf-8")
    typed(home, "answer", RUN, "q-1", "relaunch", "--reason", "the process that killed it is gone")
    with subprocess.Popen(
        [program(), "watch"], env=environment(home), stdout=subprocess.DEVNULL
    ) as watch:
        wait_for("training", lambda: "running" in typed(home, "status", RUN).splitlines()[0])
        watch.terminate()
    taken = screen("handover", home, "run", "handover", RUN, "--to", "ana", "--reason", "quiet now")
    typed(home, "watch", "--holder", "ana", "--until-idle")
    return taken


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: It did not within the limit.
    """
    until = time.monotonic() + LIMIT_S  # noqa: TID251 - no part of the product
    while not holds():
        if time.monotonic() > until:  # noqa: TID251
            raise TimeoutError(what)
        time.sleep(0.5)  # noqa: TID251


def screen(name: str, home: Path, *words: str, width: int = WIDTH) -> str:
    """Return the picture of what a command prints at a terminal."""
    shown = [word.replace(f"{home.parent}/", "") for word in words]
    printed = Text.from_ansi(typed(home, *words, width=width))
    return picture(name, f"watchkeeper {shlex.join(shown)}", printed, width=width)


def typed(home: Path, *words: str, width: int = WIDTH) -> str:
    """Run a command at a terminal of its own, and return what it printed, colours too.

    Raises:
        ValueError: The command line does not take it.
    """
    leader, follower = pty.openpty()
    command = ["stty", "columns", str(width), "rows", "60"]
    subprocess.run(command, stdin=follower, check=True)
    with subprocess.Popen(
        [program(), *words],
        env={**environment(home), "COLUMNS": str(width)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    ) as running:
        os.close(follower)
        printed = bytearray()
        while True:
            try:
                found = os.read(leader, 65536)
            except OSError:  # Linux says so at the end of a terminal.
                break
            if not found:
                break
            printed += found
        code = running.wait(LIMIT_S)
    os.close(leader)
    text = printed.decode("utf-8").replace("\r\n", "\n")
    if code == BAD_INPUT:
        raise ValueError(f"watchkeeper {shlex.join(words)}: {text}")
    text = text.replace(f"{Path(sys.executable).parent}/", "").rstrip("\n")
    text = text.replace(f"{home.parent}/", "~/")
    # A screen may have cut the folder's name.
    return re.sub(rf"{re.escape(str(home.parent)[:5])}\S*…", "~/…", text)


def program() -> str:
    """Return the installed command."""
    return str(Path(sys.executable).with_name("watchkeeper"))


def environment(home: Path) -> Mapping[str, str]:
    """Return the environment of a person at a terminal, without settings of this one."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "WATCHKEEPER_HOME": str(home),
        "WATCHKEEPER_PRINCIPAL": "demo",
        "TERM": "xterm-256color",
    }


def in_short(story: str) -> Text:
    """Return a demo's lines without those of checks and checkpoints, each in one line."""
    lines = [line for line in Text.from_ansi(story).plain.splitlines() if line.strip()]
    kept = [line for line in lines if "validated (" not in line and " healthy, " not in line]
    cut = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in kept]
    return Text("\n".join(cut))


def excerpt(book: str) -> str:
    """Return title and contract of a logbook, and its event log from the first failure on."""
    title, _, rest = book.partition("## Launched Instances")
    log = rest.partition("## Event Log")[2]
    entries = [f"### {entry}" for entry in re.split(r"^### ", log, flags=re.MULTILINE)[1:]]
    failed = next(n for n, entry in enumerate(entries) if " failed " in entry.partition("\n")[0])
    return "\n".join([title, "## Event Log", "", *entries[failed : failed + 3]])


def picture(name: str, title: str, shown: RenderableType, width: int = WIDTH) -> str:
    """Return something that rich can render, as SVG in a terminal's frame."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(shown)
    svg = console.export_svg(
        title=title, theme=DIMMED_MONOKAI, code_format=FRAME, unique_id=f"wk-{name}"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    main()
