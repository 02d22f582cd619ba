"""Ports on which nobody listens, for sources that are down."""

import socket


def closed_port() -> int:
    """Return a port of this machine that refused a connection a moment ago."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
