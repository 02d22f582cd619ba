"""The bridge that is killed: the real one, whose parts kill it at a named point."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from killing.trigger import Trigger
from watchkeeper.adapters.cli.watching import stop_signals
from watchkeeper.adapters.ray.bridge import Bridge, run
from watchkeeper.adapters.ray.job_poll import Poller
from watchkeeper.adapters.ray.messages import Message, Writer
from watchkeeper.adapters.ray.publishing import TopicPublisher
from watchkeeper.adapters.ray.spool import Offered, Waiting, open_spool, spool_key
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

POINTS = ("after-spool", "after-publish", "before-remove", "after-remove")
"""Where the bridge kills itself, once it was told to. Every second kill takes the next of them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where everything is; goes to the bridge's process."""

    folder: Path
    topic: str
    address: str
    port: int

    @property
    def session(self) -> Path:
        """The folder with the export log, which this tool writes as Ray does."""
        return self.folder / "session"

    @property
    def log(self) -> Path:
        """The export log."""
        return self.session / "logs" / "export_events" / "event_EXPORT_SUBMISSION_JOB.log"


@dataclass(slots=True)
class KillingSpool:
    """The real spool, with points after each transaction and before each removal."""

    inner: Any
    trigger: Trigger

    def offer(self, messages: Sequence[Message], *args: Any, **kwargs: Any) -> Offered:
        offered: Offered = self.inner.offer(messages, *args, **kwargs)
        if offered.taken:
            self.trigger.passed("after-spool")
        return offered

    def remove(self, published: Sequence[int]) -> None:
        self.trigger.passed("before-remove")
        self.inner.remove(published)
        self.trigger.passed("after-remove")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(slots=True)
class KillingPublisher:
    """The real publisher, with a point after Pub/Sub's word."""

    inner: TopicPublisher
    trigger: Trigger

    def publish(self, messages: Sequence[Waiting]) -> tuple[tuple[int, ...], str]:
        answer = self.inner.publish(messages)
        self.trigger.passed("after-publish")
        return answer

    def close(self) -> None:
        self.inner.close()


@dataclass(slots=True)
class ForgetfulPublisher:
    """Planted: forgets the messages first and publishes them afterwards."""

    inner: Any
    spool: Any

    def publish(self, messages: Sequence[Waiting]) -> tuple[tuple[int, ...], str]:
        self.spool.remove([each.seq for each in messages])
        answer: tuple[tuple[int, ...], str] = self.inner.publish(messages)
        return answer

    def close(self) -> None:
        self.inner.close()


def fresh(self: Writer, kind: str, *key: object) -> str:
    """Planted: gives a fact a new id each time that it is written."""
    del self, kind, key
    return os.urandom(16).hex()


def work(setting: Setting, point: str, count: int, plant: str) -> None:
    """Be the bridge that gets killed."""
    trigger = Trigger(point, count)
    if plant == "fresh-ids":
        # By its name, as a plain assignment to a method is none that a type checker takes.
        setattr(Writer, "identity", fresh)  # noqa: B010
    with open_spool(setting.folder / "spool") as real, stop_signals() as stop:
        spool: Any = KillingSpool(real, trigger)
        publisher: Any = KillingPublisher(TopicPublisher(setting.topic), trigger)
        if plant == "forget-first":
            publisher = ForgetfulPublisher(publisher, spool)
        writer = Writer("c1", Scrubber(spool_key(real)))
        poller = Poller(setting.address, spool, writer)
        every = timedelta(milliseconds=300)
        bridge = Bridge(spool, writer, poller, publisher, setting.session, every)
        run(bridge, stop, lambda _: None, ("127.0.0.1", setting.port))
