"""A TCP proxy in front of a server, which cuts or silences connections at a chosen moment."""

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread


class CutProxy:
    """Forwards bytes between clients and a server.

    Attributes:
        port: Where clients connect.
        cuts: How many connections were cut by `before` or `after`.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._lock = Lock()
        self._mark = b""
        self._after = False
        self._times = 0
        self._silent = Event()
        self._refusing = Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        Thread(target=self._accept, daemon=True).start()

    def cut_before(self, mark: bytes, times: int = 1) -> None:
        """Cut when a client sends a mark, which the server then never gets."""
        self._mark, self._after, self._times = mark, False, times

    def cut_after(self, mark: bytes, times: int = 1) -> None:
        """Pass a mark on and cut when the server has answered, so that the answer is lost."""
        self._mark, self._after, self._times = mark, True, times

    def silence(self) -> None:
        """Pass nothing on any more, and keep all connections open."""
        self._silent.set()

    def refuse(self) -> None:
        """Cut every new connection."""
        self._refusing.set()

    def recover(self) -> None:
        """Pass everything on again."""
        self._silent.clear()
        self._refusing.clear()

    def close(self) -> None:
        self._listener.close()
        for pair in self._pairs:
            _close(pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # Closed: the test is over.
                return
            try:
                if self._refusing.is_set():
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            pair = (client, server)
            self._pairs.append(pair)
            lost = Event()
            Thread(target=self._up, args=(pair, lost), daemon=True).start()
            Thread(target=self._down, args=(pair, lost), daemon=True).start()

    def _up(self, pair: tuple[socket.socket, socket.socket], lost: Event) -> None:
        client, server = pair
        with suppress(OSError):
            while data := client.recv(65536):
                if self._silent.is_set():
                    continue
                with self._lock:
                    hit = self._times > 0 and self._mark in data
                    self._times -= hit
                    self.cuts += hit
                if hit and not self._after:
                    break
                if hit:
                    # Before the server gets it: its answer must not slip through.
                    lost.set()
                server.sendall(data)
        _close(pair)

    def _down(self, pair: tuple[socket.socket, socket.socket], lost: Event) -> None:
        client, server = pair
        with suppress(OSError):
            while data := server.recv(65536):
                if lost.is_set():
                    break
                if not self._silent.is_set():
                    client.sendall(data)
        _close(pair)


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def cut_proxy(server_port: int) -> Generator[CutProxy, None, None]:
    """Run a proxy for the length of a block."""
    proxy = CutProxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()
