"""A job's metrics page: what Prometheus' own client serves is read, and faults are said."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, start_http_server
from pydantic import ValidationError

from tests.domain.samples import contract
from watchkeeper import clock
from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.telemetry import PAGE_BYTES_MAX, MetricsPage
from watchkeeper.domain.values.contract.sources import TelemetryPart
from watchkeeper.domain.values.observation.sources import TelemetryFacts, TrainingPhase
from watchkeeper.ports.sources import TelemetryOutside, Unavailable

Handler = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Handler) -> Generator[str]:
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - As its base has it.
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def gauges(**values: float) -> Generator[str]:
    """Prometheus' own client, as a training job uses it."""
    registry = CollectorRegistry()
    for name, value in values.items():
        Gauge(name, "x", registry=registry).set(value)
    Histogram("step_duration_seconds", "x", registry=registry).observe(0.5)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read(url: str, **changes: Any) -> TelemetryFacts:
    return MetricsPage(TelemetryPart(url=url, **changes)).read()


def why(url: str, limit: timedelta = timedelta(seconds=5)) -> str:
    with pytest.raises(Unavailable) as caught:
        MetricsPage(TelemetryPart(url=url), limit).read()
    return caught.value.reason


def text(body: str, kind: str = "text/plain; version=0.0.4") -> Handler:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.end_headers()
        request.wfile.write(body.encode())

    return answer


def busy(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_error(503)


def test_gauges_of_a_real_client_are_recognised() -> None:
    before = clock.now()
    with gauges(
        train_step=1200, training_phase=2, last_progress_timestamp=1795259927.5,
        tokens_per_second=2.5e6, mfu=0.23, unrelated=5,
    ) as url:  # fmt: skip
        found = read(url)
    assert (found.step, found.phase) == (1200, TrainingPhase.TRAINING)
    assert found.progress_at == datetime.fromtimestamp(1795259927.5, UTC)
    assert found.values["tokens_per_second"] == 2.5e6
    assert found.values["mfu"] == 0.23
    assert "unrelated" not in found.values
    assert not any("bucket" in name for name in found.values)
    assert found.at is not None
    assert before <= found.at <= clock.now()


def test_gauges_that_a_contract_names_come_before_the_usual_ones() -> None:
    with gauges(train_step=7, my_steps=9, my_phase=1, ring_gap=3) as url:
        found = read(url, step="my_steps", phase="my_phase", keep=("ring_gap",))
    assert (found.step, found.phase) == (9, TrainingPhase.INITIALISING)
    assert found.values["ring_gap"] == 3


def test_of_several_processes_the_one_behind_tells() -> None:
    page = """
train_step{rank="0"} 100 1795259927500
train_step{rank="1"} 97 1795259920000
phase{rank="0"} 2
phase{rank="1"} 1
last_step_timestamp_seconds{rank="0"} 1795259927
last_step_timestamp_seconds{rank="1"} 1795259900
"""
    with serving(text(page)) as url:
        found = read(url)
    assert (found.step, found.phase) == (97, TrainingPhase.INITIALISING)
    assert found.progress_at == datetime.fromtimestamp(1795259900, UTC)
    assert found.at == datetime.fromtimestamp(1795259927.5, UTC)


def test_openmetrics_and_numbers_that_are_none_are_read() -> None:
    page = "# TYPE train_step gauge\ntrain_step NaN\n# TYPE loss gauge\nloss NaN\n# EOF\n"
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    with serving(text(page, kind)) as url:
        found = read(url)
    assert found.step is None
    assert found.values["loss"] != found.values["loss"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (text("<html>sign in</html>"), "the page is not in Prometheus' text form"),
        (text(""), "the page holds no metrics"),
        (text("x 1\n" * (PAGE_BYTES_MAX // 4 + 1)), "the page is longer than"),
        (busy, "it answers 503"),
    ],
)
def test_a_page_that_is_none_is_unavailable(answer: Handler, says: str) -> None:
    with serving(answer) as url:
        assert why(url).startswith(says)


def test_a_redirect_is_not_followed() -> None:
    def elsewhere(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", "http://127.0.0.1:1/secret")
        request.end_headers()

    with serving(elsewhere) as url:
        assert why(url).startswith("it redirects elsewhere")


def test_a_page_that_drips_ends_at_the_limit() -> None:
    stop = threading.Event()

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        with contextlib.suppress(OSError):
            while not stop.wait(0.1):
                request.wfile.write(b"x 1\n")

    with serving(drip) as url:
        timer = clock.Timer()
        assert "within 1 s" in why(url, timedelta(seconds=1))
        assert timer.elapsed() < timedelta(seconds=15)
        stop.set()


def test_a_job_that_serves_nothing_yet_is_unavailable_and_its_query_is_not_told() -> None:
    with pytest.raises(Unavailable) as caught:
        read("http://127.0.0.1:1/metrics?token=s3cret")
    assert "s3cret" not in str(caught.value)
    assert caught.value.reason.startswith("no answer")


@pytest.mark.parametrize("url", ["ftp://h/x", "http://user:pw@h/metrics", "metrics"])
def test_a_url_that_is_no_page_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="expected the URL of a metrics page"):
        TelemetryPart(url=url)


def test_a_contract_without_telemetry_has_none(tmp_path: Any) -> None:
    adapters = Adapters(create_home(tmp_path / "home"))
    assert isinstance(adapters, TelemetryOutside)
    assert adapters.telemetry(contract()) is None
    named = contract(telemetry={"url": "http://head:9090/metrics"})
    assert adapters.telemetry(named) is not None
