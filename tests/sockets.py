"""Ports on which nobody listens: for sources that are down, and for servers to start."""

import contextlib
import random
import socket

SERVER_PORTS = range(20_000, 32_000)
"""Below the range that Linux gives to outgoing connections, so that none takes one by chance."""


def free_port() -> int:
    """Return a port for a server that starts later and cannot choose one itself."""
    for port in random.SystemRandom().sample(SERVER_PORTS, len(SERVER_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port of {SERVER_PORTS} is free")


def closed_port() -> int:
    """Return a port of this machine that refused a connection a moment ago."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
