"""A process that reads a subscription and kills itself at a named point, for the tests.

python -m tests.signal_eater HOME SUBSCRIPTION POINT NTH
"""

import os
import resource
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from google.cloud.pubsub_v1.subscriber.message import Message

from tests.plain_signals import parse_plain
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.watching import stop_signals
from watchkeeper.adapters.listening import Board
from watchkeeper.adapters.pubsub import consumer as consuming
from watchkeeper.domain.values.observation.signals import Delivery
from watchkeeper.services.signals.inbound import Inbox

POINTS = ("before append", "within append", "after append", "before ack", "after ack")
READY = "ready"
FULL = "full disk"
"""Instead of a point: files cannot grow until SIGUSR1, as on a full disk."""

FULL_BYTES = 8192
"""Less than one append needs; the small files beside the ledger still fit."""

_lock = threading.Lock()
_passed: dict[str, int] = {}


def passing(point: str) -> None:
    """Pass a point; die at the one that was named, at its turn."""
    with _lock:
        _passed[point] = _passed.get(point, 0) + 1
        if sys.argv[3] == point and _passed[point] >= int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Read until SIGTERM."""
    # The shortest that the client allows: what a kill leaves in hand comes again soon.
    consuming.EXTENSION_MIN = timedelta(seconds=10)
    acknowledge = Message.ack_with_response

    def ack(message: Any) -> Any:
        passing("before ack")
        answer = acknowledge(message)
        passing("after ack")
        return answer

    message_type: Any = Message
    message_type.ack_with_response = ack
    with open_session(Path(sys.argv[1]), create=True) as session, stop_signals() as stop:
        inbox = Inbox(session.ledger, session.recorder, session.home, parse_plain)
        stored = session.ledger.store.append

        def append(*args: Any, **more: Any) -> Any:
            passing("within append")
            return stored(*args, **more)

        store: Any = session.ledger.store
        store.append = append

        def take(delivery: Delivery) -> None:
            passing("before append")
            inbox.take(delivery)
            passing("after append")

        board = Board(session.home.write_signals, print)
        if sys.argv[3] == FULL:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, before[1]))

            def free(number: int, frame: FrameType | None) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

            signal.signal(signal.SIGUSR1, free)
        reader = consuming.Consumer(sys.argv[2], take, board)
        reader.start()
        print(READY, flush=True)
        stop.wait()
        assert reader.stop(timedelta(seconds=60))


if __name__ == "__main__":
    main()
