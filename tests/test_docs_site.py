"""The built pages in a browser: diagrams are drawn, and no other host is asked for anything."""

import functools
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.missing import cannot_have

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 120
HERE = "127.0.0.1"
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
DRAWN = {
    str(page.relative_to(DOCS).with_suffix(".html"))
    for page in DOCS.rglob("*.md")
    if "```mermaid" in page.read_text("utf-8")
}
PAGES = sorted(DRAWN | {"index.html", "tutorial/first-night.html", "reference/rules.html"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, timeout=LIMIT_S)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer((HERE, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HERE}:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        cannot_have(request.config, "chromium", "there is no such command; `apt install chromium`")
    return found


def opened(browser: str, address: str, folder: Path) -> tuple[str, set[str]]:
    """Open a page; return what it has become, and the hosts that it asked."""
    log = folder / "net.json"
    quiet = ("background-networking", "component-update", "sync", "quic", "gpu")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run",
        *(f"--disable-{one}" for one in quiet),
        f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
        "--virtual-time-budget=15000", "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    events: list[dict[str, Any]] = json.loads(log.read_text(encoding="utf-8"))["events"]
    # A browser asks its maker's hosts too. A request of the page has the page's origin.
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    wanted: list[dict[str, Any]] = [event.get("params", {}) for event in events]
    ours = [str(one["url"]) for one in wanted if one.get("initiator") == origin]
    asked = {urlsplit(url).hostname or "" for url in ours if url.startswith(("http", "ws"))}
    return done.stdout, asked


@pytest.mark.servers
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_no_other_host(site: str, browser: str, name: str, tmp_path: Path) -> None:
    shown, asked = opened(browser, f"{site}/{name}", tmp_path)
    assert asked == {HERE}
    assert "<svg" in shown
    # Material takes the text of a diagram out of its `pre` once it is drawn.
    assert ('<div class="mermaid"' in shown) == (name in DRAWN)
    assert '<pre class="mermaid"' not in shown


def test_every_picture_is_shown_and_asks_no_other_host() -> None:
    pages = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    taken = sorted(PICTURES.glob("*.svg"))
    assert len(taken) >= 10
    for picture in taken:
        text = picture.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert len(text) > 2_000, picture
        assert "://" not in text.replace("http://127.0.0.1", ""), picture
        assert "/work/" not in text, picture
        assert picture.name == "demo.svg" or f"pictures/{picture.name}" in pages, picture
