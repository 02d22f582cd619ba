"""How a victim kills itself at a named point."""

import os
import signal
import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Trigger:
    """Kills this process right after the n-th act of one kind."""

    point: str
    countdown: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def passed(self, point: str) -> None:
        """Say that an act was done; nothing after the last one is ever executed."""
        with self.lock:
            if point != self.point:
                return
            self.countdown -= 1
            if self.countdown <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
