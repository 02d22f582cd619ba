"""A process that uses a store: run by the tests of the store, stopped by its input or a signal.

Usage: python -m tests.adapters.store_worker <what> <path or URL> [<argument> ...]
"""

import os
import resource
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from threading import Thread

from tests.stores import Place
from watchkeeper.ports.event_store import StoreFailure, VersionConflict, Write
from watchkeeper.services.ledger.group_commit import Committer


def say(text: object) -> None:
    print(text, flush=True)


def contend(path: Place, name: str, number: str) -> None:
    """Append to one stream that others append to as well, and say which versions were ours."""
    with path.open() as store:
        for index in range(int(number)):
            event = ("run.noted.1", f"{name} {index}".encode())
            while True:
                expected, _ = store.head("run/shared")
                try:
                    appended = store.append([Write("run/shared", expected, (event,))])
                except VersionConflict:
                    continue
                say(appended.versions["run/shared"][1])
                break


def write_for_ever(path: Place, stream: str) -> None:
    """Append to two streams at once under a key each time, and say so once it has returned."""
    with path.open() as store:
        version = store.head(stream)[0]
        effects = store.head(f"effects/{stream}")[0]
        for index in count():
            writes = [
                Write(stream, version, (("run.noted.1", os.urandom(300)),) * 2),
                Write(f"effects/{stream}", effects, (("effect.noted.1", b"{}"),)),
            ]
            store.append(writes, key=f"{os.getpid()} {index}", digest=b"d")
            version, effects = version + 2, effects + 1
            say(f"{version} {effects} {os.getpid()} {index}")


def write_grouped(path: Place, threads: str) -> None:
    """Append from several threads through one committer, and say so once each has returned."""

    def write(number: int) -> None:
        stream = f"run/{os.getpid()}-{number}"
        for version in count(step=2):
            writes = [Write(stream, version, (("run.noted.1", os.urandom(300)),) * 2)]
            store.append(writes, key=f"{stream} {version + 2}")
            # One call of the system: lines of several threads must not mix.
            os.write(1, f"{stream} {version + 2}\n".encode())

    with Committer(path.open()) as store:
        for number in range(int(threads)):
            Thread(target=write, args=(number,), daemon=True).start()
        sys.stdin.read()


def hold(path: Place) -> None:
    """Keep the store open until the input ends."""
    with path.open():
        say("open")
        sys.stdin.read()


def append_on_request(path: Place, stream: str) -> None:
    """Append one event for each line of input."""
    with path.open() as store:
        say("open")
        for _ in sys.stdin:
            store.append([Write(stream, store.head(stream)[0], (("run.noted.1", b"{}"),))])


def fill(path: Place, limit_bytes: str) -> None:
    """Append until files may not grow any more, then once more when they may again."""
    with path.open() as store:
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), unlimited[1]))
        for version in count():
            event = ("run.noted.1", bytes(5_000))
            try:
                store.append([Write("run/a", version, (event,))], key=str(version))
            except StoreFailure as error:
                say(version)
                say(error)
                assert (store.head("run/a")[0], store.answer(str(version))) == (version, None)
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
                store.append([Write("run/a", version, (event,))], key=str(version))
                return


def try_all(path: Place) -> None:
    """Say how opening and appending end."""
    try:
        with path.open() as store:
            store.append([Write("run/a", store.head("run/a")[0], (("run.noted.1", b"{}"),))])
    except StoreFailure as error:
        say(error)
    except VersionConflict as error:
        say(f"conflict: {error}")
    else:
        say("stored")


def act_once(path: Place, number: str) -> None:
    """Carry out acts under keys that another process uses at the same time; say what came of it."""
    with path.open() as store:
        for index in range(int(number)):
            while True:
                expected, _ = store.head("run/shared")
                writes = [Write("run/shared", expected, (("run.noted.1", os.urandom(20)),))]
                try:
                    done = store.append(writes, key=f"check {index}")
                except VersionConflict:
                    continue
                break
            versions = "-".join(map(str, done.versions["run/shared"]))
            say(f"{'repeated' if done.repeated else 'stored'}:{versions}")


def leave_open(path: Place) -> None:
    """End while a subscription, a waiter's feed and the store are still open."""
    store = path.open()
    path.recorder(store).subscribe()
    store.wait(after=2**62, limit=timedelta(milliseconds=1))
    say("ending")


WHATS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        contend,
        write_for_ever,
        write_grouped,
        hold,
        append_on_request,
        fill,
        try_all,
        act_once,
        leave_open,
    )
}

if __name__ == "__main__":
    WHATS[sys.argv[1]](Place(sys.argv[2]), *sys.argv[3:])
