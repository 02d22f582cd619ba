"""The `doctor` report on the server that holds a ledger."""

from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_link import LIMITS, Links
from watchkeeper.adapters.store.postgres_spare import reported_copy, spare
from watchkeeper.clock import Timer

_SAFE = {"fsync": "on", "full_page_writes": "on"}
"""Server settings without which a crash of its machine loses stored data."""


def health(url: str) -> list[tuple[str, bool, str]]:
    """Check a server and the rights in it: name of the check, whether it is well, a sentence.

    Raises:
        StoreFailure: It cannot be reached or used; the message says what to do.
    """
    address = parse_address(url)
    links = Links(address, LIMITS)
    try:
        links.prepare(create=False)
        timer = Timer()
        [(server, standby)] = links.read(
            "ask", "SELECT current_setting('server_version'), pg_is_in_recovery()", ()
        )
        answer_ms = timer.elapsed().total_seconds() * 1000
        settings = links.read(
            "ask",
            "SELECT name, setting FROM pg_settings WHERE name = ANY (%s::text[])",
            (list(_SAFE),),
        )
        with links.borrowed() as connection:
            left = reported_copy(spare(connection, address.schema))
    finally:
        links.close()
    # A restore that is under way keeps everybody out, so this one is not.
    found = [("restore", False, left)] if left else []
    unsafe = [name for name, value in settings if value != _SAFE[name]]
    says = f"PostgreSQL {server}, answers in {answer_ms:.1f} ms"
    if standby:
        says += "; it is a standby, which takes no writes: choose another"
        return [("server", False, says), *found]
    if unsafe:
        names = " and ".join(unsafe)
        says += f"; {names} off: a crash of its machine loses events"
        return [("server", False, says), *found]
    return [("server", True, says), *found]
