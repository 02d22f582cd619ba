"""A port on which nobody listens: for a source that is down, or for a server to start."""

import contextlib
import random
import socket

SERVER_PORTS = range(20_000, 32_000)
"""Below the range that Linux gives to outgoing connections, so that none takes one by chance."""


def free_port() -> int:
    """Return a port that is free now, and that no connection takes by chance."""
    for port in random.SystemRandom().sample(SERVER_PORTS, len(SERVER_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port of {SERVER_PORTS} is free")
