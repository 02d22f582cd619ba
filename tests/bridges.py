"""A bridge as a process of its own, and what came out of Pub/Sub at its other end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.api_core.exceptions import DeadlineExceeded, ServiceUnavailable
from google.cloud import pubsub_v1

from watchkeeper import clock

PROGRAM = "from watchkeeper.adapters.cli import main; main()"
LIMIT = timedelta(seconds=240)
"""A node of Ray that joins while everything else begins was seen to take more than 90 s."""


@dataclass
class Subscription:
    """All that was published to a topic, in the order in which it was pulled."""

    topic: str
    path: str
    client: Any
    messages: list[Any] = field(default_factory=list[Any])

    def pull(self) -> None:
        """Take what is there now."""
        while True:
            with contextlib.suppress(DeadlineExceeded, ServiceUnavailable):
                # The emulator answers an empty pull after half a second.
                answer = self.client.pull(subscription=self.path, max_messages=1_000, timeout=10)
                found = list(answer.received_messages)
                self.messages += [each.message for each in found]
                if found:
                    self.client.acknowledge(
                        subscription=self.path, ack_ids=[each.ack_id for each in found]
                    )
                    continue
            return

    def told(self, kind: str, subject: str = "") -> list[dict[str, Any]]:
        """The bodies of one type, and of one subject if one is named; repetitions once."""
        found = {
            (each.attributes["ce-source"], each.attributes["ce-id"]): json.loads(each.data)
            for each in self.messages
            if each.attributes["ce-type"] == f"dev.watchkeeper.ray.{kind}"
            and subject in ("", each.attributes["ce-subject"])
        }
        return list(found.values())

    def statuses(self, job: str) -> list[str]:
        """The states of one job that were told; Pub/Sub promises no order."""
        return [told["job"]["status"] for told in self.told("job.observed", job)]

    def job(self, job: str, status: str) -> dict[str, Any]:
        """What was told of a job in a state."""
        told = [told["job"] for told in self.told("job.observed", job)]
        (found,) = [each for each in told if each["status"] == status]
        return dict(found)

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Pull until something holds."""

        def holds() -> bool:
            self.pull()
            return bool(condition())

        waiting = clock.ExponentialBackoff(initial=timedelta(milliseconds=100))
        came = waiting.wait_until(holds, LIMIT)
        assert came, f"{what} did not come within {LIMIT}; {len(self.messages)} messages did"


def subscription_of(project: str) -> Subscription:
    """The subscription of a project, wherever it was made."""
    subscriber: Any = pubsub_v1.SubscriberClient()
    topic = f"projects/{project}/topics/ray"
    return Subscription(topic, f"projects/{project}/subscriptions/watch", subscriber)


def subscribe(project: str) -> Subscription:
    """Make a topic and a subscription to it."""
    publisher: Any = pubsub_v1.PublisherClient()
    made = subscription_of(project)
    publisher.create_topic(name=made.topic)
    made.client.create_subscription(name=made.path, topic=made.topic)
    publisher.transport.close()
    return made


@dataclass
class Running:
    """A bridge that runs, and the file with what it says."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """What it said with `--json`."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]

    def end(self) -> dict[str, Any]:
        """End it as systemd does; return its last word."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, self.log.read_text()
        return self.lines()[-1]


def command(address: str, topic: str, spool: Path, *more: str) -> list[str]:
    """The command line of a bridge."""
    return [
        sys.executable, "-c", PROGRAM, "tools", "bridge", "ray", "--address", address,
        "--topic", topic,
        "--spool", str(spool), "--cluster", "c1", "--json", *more,
    ]  # fmt: skip


@contextmanager
def bridge(address: str, topic: str, spool: Path, *more: str) -> Generator[Running]:
    """Run a bridge in an empty folder, without a home, for as long as the block lasts."""
    empty = spool.parent / f"{spool.name}-cwd"
    empty.mkdir(parents=True, exist_ok=True)
    log = spool.parent / f"{spool.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(address, topic, spool, *more),
            cwd=empty,
            env={**os.environ, "HOME": str(empty)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Running(process, log)
    except BaseException as error:
        error.add_note(f"the bridge's last output:\n{log.read_text()[-2_000:]}")
        raise
    finally:
        process.kill()
        process.wait(timeout=60)
