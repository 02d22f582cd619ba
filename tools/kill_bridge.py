"""Kills a bridge of a real Ray cluster again and again: nothing may be lost.

    PUBSUB_EMULATOR_HOST=127.0.0.1:8085 uv run python tools/kill_bridge.py --kills 100 --seed 7

Facts come by all three ways at once: records of jobs in the cluster's own store, lines of an export
log, and events that are POSTed until they are answered with 200, as Ray does. The bridge is killed
by SIGKILL: half of the times at a random moment, half of the times right at a named point, which is
wrapped around it here; the product holds no switch for it. At the end each fact must have come out
of Pub/Sub, under one id however often it came, and with the same bytes each time.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from google.api_core.exceptions import DeadlineExceeded
from google.cloud import pubsub_v1

from killing.bridge_victim import POINTS, Setting, work
from watchkeeper import clock
from watchkeeper.adapters.ray.cluster import free_ports, start_head
from watchkeeper.adapters.ray.messages import is_object

HEAVY = ["watchkeeper.adapters.ray.bridge", "watchkeeper.adapters.cli.watching"]

POINT_LIMIT_S = 30.0
QUIET_LIMIT = timedelta(seconds=30)
"""Nothing new for so long, from a bridge that is left alone, means that nothing more will come."""

PUTTER = """
import asyncio, sys
from ray._raylet import GcsClient
from ray.dashboard.modules.job.common import JobInfo, JobInfoStorageClient
from ray.job_submission import JobStatus
store = JobInfoStorageClient(GcsClient(address=sys.argv[1]))
for name in sys.stdin:
    job = JobInfo(status=JobStatus.SUCCEEDED, entrypoint="true", start_time=1, end_time=2)
    asyncio.run(store.put_info(name.strip(), job))
    print(name.strip(), flush=True)
"""


@dataclass(slots=True)
class Feeder:
    """Lets facts happen, and keeps the names of those that a bridge has to tell."""

    setting: Setting
    gcs: str
    chance: random.Random
    happened: list[str] = field(default_factory=list[str])
    stop: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """Go on until told to stop."""
        putter = subprocess.Popen(
            [sys.executable, "-c", PUTTER, self.gcs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert putter.stdin is not None
        assert putter.stdout is not None
        number = 0
        while not self.stop.wait(self.chance.uniform(0.0, 0.1)):
            number += 1
            match number % 3:
                case 0:
                    name = f"poll-{number:06}"
                    putter.stdin.write(f"{name}\n")
                    putter.stdin.flush()
                    assert putter.stdout.readline().strip() == name
                    self.happened.append(name)
                case 1:
                    self.happened += self._written(f"file-{number:06}")
                case _:
                    self.happened += self._posted(f"http-{number:06}")
        putter.stdin.close()
        putter.wait(timeout=30)
        putter.stdout.close()

    def _written(self, name: str) -> list[str]:
        line = json.dumps(
            {
                "event_id": f"{name}-{self.chance.getrandbits(64):x}",
                "timestamp": 1_795_219_284,
                "source_type": "EXPORT_SUBMISSION_JOB",
                "event_data": {"submission_job_id": name, "status": "SUCCEEDED", "end_time": "2"},
            }
        )
        cut = self.chance.randrange(len(line))
        with self.setting.log.open("a") as file:
            # In two parts, so that the bridge also looks in the middle of a line.
            file.write(line[:cut])
            file.flush()
            self.stop.wait(0.005)
            file.write(line[cut:] + "\n")
        return [name]

    def _posted(self, name: str) -> list[str]:
        body = json.dumps([{"eventId": None, "eventType": "NODE_LIFECYCLE_EVENT", "message": name}])
        while not self.stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.setting.port, timeout=3)
            try:
                connection.request("POST", "/events", body)
                if connection.getresponse().status == 200:
                    return [name]
            except (OSError, http.client.HTTPException):
                self.stop.wait(0.05)
            finally:
                connection.close()
        return []


def campaign(options: argparse.Namespace) -> int:
    """Feed, kill, finish, judge, report."""
    timer = clock.Timer()
    folder = Path(tempfile.mkdtemp(prefix="wk-kill-bridge-"))
    topic, subscription = made_topic(folder.name.replace("_", "-").lower())
    head = start_head(folder / "head", 2)
    setting = Setting(folder, topic, head.address, free_ports(1)[0])
    setting.log.parent.mkdir(parents=True)
    chance = random.Random(options.seed)
    feeder = Feeder(setting, head.gcs, random.Random(options.seed))
    thread = threading.Thread(target=feeder.feed, name="feeder")
    # Forked from a process that has imported what is slow: a start costs no seconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    kills: Counter[str] = Counter()
    received: list[Any] = []
    wrong: list[str] = []
    try:
        thread.start()
        for number in range(options.kills):
            point = point_of(number, options.only_point)
            count = chance.randint(1, 4)
            victim = context.Process(target=work, args=(setting, point, count, options.plant))
            victim.start()
            victim.join(POINT_LIMIT_S if point else chance.uniform(0.1, 2.0))
            ended = victim.exitcode
            victim.kill()
            victim.join()
            kills[point if point and ended == -signal.SIGKILL else "random"] += 1
            if ended not in (None, -signal.SIGKILL):
                wrong.append(f"the bridge left with code {ended} before kill {number + 1}")
            received += pulled(subscription)
            if not options.json:
                print(f"\rkill {number + 1}/{options.kills}", end="", file=sys.stderr, flush=True)
        feeder.stop.set()
        thread.join()
        last = context.Process(target=work, args=(setting, "", 0, options.plant))
        last.start()
        wrong += finish(feeder.happened, subscription, received)
        last.terminate()
        last.join(60)
        if last.exitcode != 0:
            wrong.append(f"the last bridge left with code {last.exitcode}")
            last.kill()
        received += pulled(subscription)
    finally:
        feeder.stop.set()
        thread.join()
        head.stop()
    wrong += judged(received) + [
        f"point {point} was never hit"
        for point in {point_of(n, options.only_point) for n in range(options.kills)}
        if point and not kills[point]
    ]
    return report(options, folder, timer, feeder, received, kills, wrong)


def point_of(number: int, only: str | None) -> str:
    """Return the point of a kill, counted from 0; empty for a random moment."""
    if only is not None:
        return only
    return POINTS[number // 2 % len(POINTS)] if number % 2 == 0 else ""


def finish(happened: list[str], subscription: tuple[Any, str], received: list[Any]) -> list[str]:
    """Wait until every fact came out; say which did not."""

    def missing() -> list[str]:
        return sorted(set(happened) - {fact_of(each) for each in received})

    deadline = clock.Deadline.after(QUIET_LIMIT)
    while missing() and not deadline.expired():
        if found := pulled(subscription):
            received += found
            deadline = clock.Deadline.after(QUIET_LIMIT)
    return [f"{fact} was lost" for fact in missing()]


def fact_of(message: Any) -> str:
    """Return the name of the fact in a message, read from its body alone; empty for another's."""
    body = json.loads(message.data)
    job = body.get("job")
    return str(job["submission_id"] if is_object(job) else body.get("message") or "")


def judged(received: list[Any]) -> list[str]:
    """Say which facts came under several ids, and which ids with several contents."""
    ids: dict[str, set[str]] = {}
    bodies: dict[tuple[str, str], set[bytes]] = {}
    for each in received:
        identity = (each.attributes["ce-source"], each.attributes["ce-id"])
        bodies.setdefault(identity, set()).add(each.data)
        fact = fact_of(each)
        if fact.startswith(("poll-", "file-", "http-")):
            ids.setdefault(fact, set()).add(each.attributes["ce-id"])
    return [f"{fact} came under {len(each)} ids" for fact, each in ids.items() if len(each) > 1] + [
        f"id {identity[1]} came with {len(each)} contents"
        for identity, each in bodies.items()
        if len(each) > 1
    ]


def report(
    options: argparse.Namespace,
    folder: Path,
    timer: clock.Timer,
    feeder: Feeder,
    received: list[Any],
    kills: Counter[str],
    wrong: list[str],
) -> int:
    """Print what came of it; return the exit code."""
    distinct = {(each.attributes["ce-source"], each.attributes["ce-id"]) for each in received}
    reported = {
        "kills": sum(kills.values()),
        "points": dict(kills),
        "facts": dict(Counter(name.partition("-")[0] for name in feeder.happened)),
        "messages": len(received),
        "repeated": len(received) - len(distinct),
        "problems": wrong,
        "folder": str(folder),
        "seconds": round(timer.elapsed().total_seconds(), 1),
    }
    print(json.dumps(reported, indent=None if options.json else 2))
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


def made_topic(project: str) -> tuple[str, tuple[Any, str]]:
    publisher: Any = pubsub_v1.PublisherClient()
    subscriber: Any = pubsub_v1.SubscriberClient()
    topic = publisher.topic_path(project, "ray")
    path = subscriber.subscription_path(project, "all")
    publisher.create_topic(name=topic)
    subscriber.create_subscription(name=path, topic=topic)
    return topic, (subscriber, path)


def pulled(subscription: tuple[Any, str]) -> list[Any]:
    """Take what is there now."""
    client, path = subscription
    found: list[Any] = []
    while True:
        try:
            answer = client.pull(subscription=path, max_messages=1_000, timeout=10)
        except DeadlineExceeded:
            return found
        batch = list(answer.received_messages)
        if not batch:
            return found
        client.acknowledge(subscription=path, ack_ids=[each.ack_id for each in batch])
        found += [each.message for each in batch]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-point", choices=POINTS, help="kill at this point only")
    parser.add_argument("--plant", choices=("forget-first", "fresh-ids"), default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not os.environ.get("PUBSUB_EMULATOR_HOST"):
        parser.error("PUBSUB_EMULATOR_HOST is not set: this must not publish to a real topic")
    return campaign(options)


if __name__ == "__main__":
    sys.exit(main())
